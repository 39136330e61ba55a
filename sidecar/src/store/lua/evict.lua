-- ARGV: 6 the owner that does not show up, 7 the head it left behind
local owner, head = ARGV[6], ARGV[7]
if call('ZRANGE', KEYS[2], 0, 0)[1] ~= head or owner_of(head) ~= owner then
  return changed(false)
end
for _, ticket in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
  if owner_of(ticket) == owner then quit_line(ticket) end
end
return changed(true)
