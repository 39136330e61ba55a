-- ARGV: 6 ticket, 7 how long ago the upstream answered (us)
local ticket, age = ARGV[6], tonumber(ARGV[7])
if not awaits_answer(ticket) then return changed(false) end
answered_at = math.max(now - age, granted())
change()
return changed(true)
