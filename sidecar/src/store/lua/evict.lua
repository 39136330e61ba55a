-- ARGV: 6 the owner that does not show up, 7 the head it left behind, 8 tickets to skip, 9 to look at
local owner, head, skip, most = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
if skip == 0 and (call('ZRANGE', KEYS[2], 0, 0)[1] ~= head or owner_of(head) ~= owner) then
  return changed(false)
end
local seen = call('ZRANGE', KEYS[2], skip, skip + most - 1)
local gone = {}
if #seen > 0 then
  local owners = call('HMGET', KEYS[3], unpack(seen))
  for i, ticket in ipairs(seen) do
    if (owners[i] or NO_OWNER) == owner then gone[#gone + 1] = ticket end
  end
end
if #gone > 0 then
  call('HDEL', KEYS[3], unpack(gone))
  call('ZREM', KEYS[2], unpack(gone))
end
local next_skip = #seen == most and skip + #seen - #gone or -1
return outcome(EVICTED, next_skip, 0, stored_bound(), first_in_line())
