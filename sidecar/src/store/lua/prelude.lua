-- The lane as Redis holds it; the Rust lane says the same, step by step.
-- KEYS: 1 state, 2 line (ticket -> since), 3 owners (ticket -> owner)
-- ARGV: 1 now in us (empty: TIME), 2 interval, 3 settle, 4 lookahead (us), 5 idle ttl (ms)
local NOBODY = string.rep('\0', 16)
local NO_OWNER = string.rep('\0', 8)
local UNCHANGED, CHANGED, GRANTED, WAITING, REFUSED, EVICTED = 0, 1, 2, 3, 4, 5
local call = redis.call

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local interval, settle = tonumber(ARGV[2]), tonumber(ARGV[3])
local lookahead, idle_ttl = tonumber(ARGV[4]), tonumber(ARGV[5])

-- granted_at = 0: no last grant; answered_at = 0: no answer yet; before = 0: nothing before it
local revision, granted_at, answered_at, before, last_ticket, not_before = 0, 0, 0, 0, NOBODY, 0
local stored = call('GET', KEYS[1])
if stored then
  if #stored < 44 then return redis.error_reply('DAMAGED the state of a lane has ' .. #stored .. ' bytes') end
  revision, granted_at, answered_at, before, last_ticket = struct.unpack('>I7I7I7I7c16', stored)
  if #stored > 44 then
    not_before = struct.unpack('>I7', stored, 45)
  end
end

-- A stamp in the future means that the clock ran backwards: it counts as now.
local function granted()
  if granted_at > now + lookahead then return now end
  return granted_at
end

local function stored_bound()
  if granted_at == 0 then return nil end
  local settled = granted() + settle
  if answered_at == 0 then return settled end
  return math.min(answered_at, now, settled)
end

local function opens_at(bound)
  if not bound then return math.max(now, not_before) end
  return math.max(bound + interval, not_before)
end

-- The 44 bytes fit Redis' embedded strings; a pause adds seven. Nearly always the ttl is the text
-- that came in: a number would be printed with 17 digits first.
local function save()
  local packed = struct.pack('>I7I7I7I7c16', revision, granted_at, answered_at, before, last_ticket)
  local ttl = ARGV[5]
  if not_before > 0 then
    packed = packed .. struct.pack('>I7', not_before)
    ttl = math.ceil(idle_ttl + math.max(0, not_before - now) / 1000)
  end
  call('SET', KEYS[1], packed, 'PX', ttl)
end

local function change()
  if not_before <= now then not_before = 0 end
  revision = math.max(now, revision + 1)
  save()
end

-- Nobody's turn: the upstream had its last request by `bound`, or will have it by then.
local function settle_at(bound)
  last_ticket, granted_at, answered_at, before = NOBODY, bound - settle, 0, 0
end

local function awaits_answer(ticket)
  return granted_at > 0 and last_ticket == ticket and answered_at == 0
end

local function quit_line(ticket)
  call('HDEL', KEYS[3], ticket)
  return call('ZREM', KEYS[2], ticket) == 1
end

local function owner_of(ticket)
  return call('HGET', KEYS[3], ticket) or NO_OWNER
end

local function first_in_line()
  return call('ZRANGE', KEYS[2], 0, 0)[1] or false
end

-- The answer to every operation. The numbers are differences to now, so that no clock travels.
-- `stranger`: the node's replication id, where that is why nothing was granted.
local function outcome(verdict, a, b, bound, head, stranger)
  return {
    verdict, a, b, now, revision, bound and (bound - now) or false, opens_at(bound) - now,
    head, head and owner_of(head), head and call('ZCARD', KEYS[2]) or 0, stranger or false,
  }
end

local function changed(yes)
  return outcome(yes and CHANGED or UNCHANGED, 0, 0, stored_bound(), first_in_line())
end
