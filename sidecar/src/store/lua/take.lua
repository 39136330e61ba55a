-- ARGV: 6 ticket, 7 owner, 8 since or empty, 9 seen revision or empty, 10 its age,
--       11 the replication id whose history the caller vouches for,
--       12 and 13 the longest wait (us) and line of a new ticket, or empty,
--       14 '1': asks for its place, and for no turn that it has not had yet,
--       15 so does whoever arrived longer ago than this (us) and has no place
local ticket, owner, since = ARGV[6], ARGV[7], tonumber(ARGV[8])
local seen, age = tonumber(ARGV[9]), tonumber(ARGV[10])
local only_join = ARGV[14] == '1'

local first = call('ZRANGE', KEYS[2], 0, 1, 'WITHSCORES')
local head, head_since = first[1] or false, tonumber(first[2])

local bound = stored_bound()
if head and not stored then
  -- Tickets wait, so there was a state: it is lost, and with it the last turn, which was before now.
  granted_at, revision = now, seen or 0
  change()
  bound = stored_bound()
elseif seen and seen == revision then
  -- A caller's monotonic clock beats TIME, and its memory beats a store that lost a write.
  bound = bound and now - age
elseif seen and seen > revision then
  bound = math.max(bound or 0, now - age)
  settle_at(bound)
  revision = seen
  save()
end

-- A node that became master a moment ago may have lost the last turns: it grants nothing, and says
-- who it is. A given `now` is a rehearsal.
local stranger = false
local function vouched()
  if ARGV[1] ~= '' then return true end
  local node = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
  stranger = node ~= ARGV[11] and node
  return not stranger
end

-- The reply to this ticket's grant was lost, or came too late to be used.
if awaits_answer(ticket) then
  if not vouched() then
    return outcome(WAITING, since or now, 0, bound, first_in_line(), stranger)
  end
  granted_at = math.max(granted(), now)
  change()
  return outcome(GRANTED, granted_at - now, 1, stored_bound(), first_in_line())
end

-- A place for a ticket that has none: where it stood before, or behind all who wait.
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
  only_join = only_join or now - score > tonumber(ARGV[15])
end

local leads = not head or head == ticket
  or (not known and (score < head_since or (score == head_since and ticket < head)))
if leads and now + lookahead >= opens_at(bound) and vouched() and not only_join then
  if known then quit_line(ticket) end
  granted_at = math.max(now, opens_at(bound))
  answered_at, before, last_ticket = 0, bound or 0, ticket
  change()
  local next_head = head
  if known then next_head = first[3] or false end
  return outcome(GRANTED, granted_at - now, 0, stored_bound(), next_head)
end

local wait = math.max(0, opens_at(bound) - now)
if not known then call('ZADD', KEYS[2], score, ticket) end
local ahead = call('ZRANK', KEYS[2], ticket)
if not known then
  local max_wait, max_line = tonumber(ARGV[12]), tonumber(ARGV[13])
  local would_wait = wait + ahead * interval
  if (max_wait and would_wait > max_wait) or (max_line and call('ZCARD', KEYS[2]) > max_line) then
    quit_line(ticket)
    return outcome(REFUSED, would_wait, ahead, bound, head, stranger)
  end
end
-- Whoever waits leaves a state behind, so that its loss can be noticed.
if revision == 0 then change() end
call('HSET', KEYS[3], ticket, owner)
if not known then
  -- All three keys outlive the wait of the last in the line.
  local ttl = math.ceil(idle_ttl + (wait + (ahead + 1) * (interval + settle)) / 1000)
  call('PEXPIRE', KEYS[1], ttl, 'GT')
  call('PEXPIRE', KEYS[2], ttl)
  call('PEXPIRE', KEYS[3], ttl)
end
if leads then head = ticket end
return outcome(WAITING, score, ahead, bound, head, stranger)
