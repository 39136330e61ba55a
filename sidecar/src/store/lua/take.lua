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
  return outcome(GRANTED, granted_at - now, 1, stored_bound())
end

-- A place for a ticket that has none: where it stood before, or behind all who wait.
local score = tonumber(redis.call('ZSCORE', KEYS[2], ticket) or nil)
local known = score ~= nil
local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if not known then
  score = since
  if not score then
    local newest = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
    score = newest and math.max(now, newest + 1) or now
  end
end

local head_since = tonumber(head[2])
local leads = not head[1] or head[1] == ticket
  or (not known and (score < head_since or (score == head_since and ticket < head[1])))
if leads and now + lookahead >= opens_at(bound) then
  if known then quit_line(ticket) end
  granted_at = math.max(now, opens_at(bound))
  answered_at, before, last_ticket = 0, bound or 0, ticket
  change()
  return outcome(GRANTED, granted_at - now, 0, stored_bound())
end

redis.call('HSET', KEYS[3], ticket, owner)
if not known then redis.call('ZADD', KEYS[2], score, ticket) end
local ahead = redis.call('ZRANK', KEYS[2], ticket)
if not known then
  -- All three keys outlive the wait of the last in the line.
  local wait = (math.max(0, opens_at(bound) - now) + (ahead + 1) * (interval + settle)) / 1000
  local ttl = math.ceil(idle_ttl + wait)
  redis.call('PEXPIRE', KEYS[1], ttl, 'GT')
  redis.call('PEXPIRE', KEYS[2], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
end
return outcome(WAITING, score, ahead, bound)
