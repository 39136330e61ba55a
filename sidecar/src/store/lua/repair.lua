-- Somebody put something else into a lane's keys: what is not ours goes. A lane whose last turn is lost
-- counts as granted just now.
-- KEYS and the first ARGV as ever; no prelude, because that reads the state.
local kinds = { 'string', 'zset', 'hash' }
local lost = false
for i, kind in ipairs(kinds) do
  local found = redis.call('TYPE', KEYS[i]).ok
  local damaged = found ~= 'none' and found ~= kind
  if i == 1 and found == 'string' then damaged = redis.call('STRLEN', KEYS[1]) < 44 end
  if damaged then
    redis.call('DEL', KEYS[i])
    lost = lost or i == 1
  end
end
if lost then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local packed = struct.pack('>I7I7I7I7c16', now, now, 0, 0, string.rep('\0', 16))
  redis.call('SET', KEYS[1], packed, 'PX', ARGV[5])
end
return lost and 1 or 0
