-- ARGV: 6 ticket, 7 owner, 8 since or empty, 9 seen revision or empty, 10 its age
local ticket, owner, since = ARGV[6], ARGV[7], tonumber(ARGV[8])
local seen, age = tonumber(ARGV[9]), tonumber(ARGV[10])

-- A caller's monotonic clock beats TIME, and its memory beats a store that lost a write.
local bound = stored_bound()
if seen and seen == revision then
  bound = bound and now - age
elseif seen and seen > revision then
  bound = math.max(bound or 0, now - age)
  settle_at(bound)
  revision = seen
  save()
end

-- The reply to this ticket's grant was lost, or came too late to be used.
if awaits_answer(ticket) then
  granted_at = math.max(granted(), now)
  change()
  return outcome(GRANTED, granted_at - now, 1, stored_bound(), first_in_line())
end

-- A place for a ticket that has none: where it stood before, or behind all who wait.
local first = call('ZRANGE', KEYS[2], 0, 1, 'WITHSCORES')
local head, head_since = first[1] or false, tonumber(first[2])
local score = head_since
if head and head ~= ticket then
  score = tonumber(call('ZSCORE', KEYS[2], ticket) or nil)
end
local known = score ~= nil
if not known then
  score = since
  if not score and head then
    local newest = tonumber(call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
    score = math.max(now, newest + 1)
  end
  score = score or now
end

local leads = not head or head == ticket
  or (not known and (score < head_since or (score == head_since and ticket < head)))
if leads and now + lookahead >= opens_at(bound) then
  if known then quit_line(ticket) end
  granted_at = math.max(now, opens_at(bound))
  answered_at, before, last_ticket = 0, bound or 0, ticket
  change()
  local next_head = head
  if known then next_head = first[3] or false end
  return outcome(GRANTED, granted_at - now, 0, stored_bound(), next_head)
end

call('HSET', KEYS[3], ticket, owner)
if not known then call('ZADD', KEYS[2], score, ticket) end
local ahead = call('ZRANK', KEYS[2], ticket)
if not known then
  -- All three keys outlive the wait of the last in the line.
  local wait = (math.max(0, opens_at(bound) - now) + (ahead + 1) * (interval + settle)) / 1000
  local ttl = math.ceil(idle_ttl + wait)
  call('PEXPIRE', KEYS[1], ttl, 'GT')
  call('PEXPIRE', KEYS[2], ttl)
  call('PEXPIRE', KEYS[3], ttl)
end
if leads then head = ticket end
return outcome(WAITING, score, ahead, bound, head)
