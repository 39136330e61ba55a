-- ARGV: 6 ticket, 7 '1' where the request certainly never went to the upstream
local ticket, unsent = ARGV[6], ARGV[7] == '1'
local waited = quit_line(ticket)
if not (unsent and awaits_answer(ticket)) then return changed(waited) end
if before == 0 then
  granted_at, answered_at, last_ticket = 0, 0, NOBODY
else
  settle_at(before)
end
change()
return changed(true)
