-- ARGV: 6 the instant until which nothing is granted; 0 opens the lane again
local until_us = tonumber(ARGV[6])
if until_us == not_before then return changed(false) end
not_before = until_us
save()
for i = 2, 3 do
  call('PEXPIRE', KEYS[i], math.ceil(idle_ttl + math.max(0, until_us - now) / 1000), 'GT')
end
return changed(true)
