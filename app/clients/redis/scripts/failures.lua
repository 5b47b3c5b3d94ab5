-- Count failed log-ins of a network; the first one begins a window, at the end of which the count is deleted.
-- KEYS: count. ARGV: further failures, 0 or 1; length of the window in ms.
-- Returns the count, and the rest of the window in ms.
if ARGV[1] == '0' and redis.call('EXISTS', KEYS[1]) == 0 then
  return {0, 0}
end
local count = redis.call('HINCRBY', KEYS[1], 'count', ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {count, redis.call('PTTL', KEYS[1])}
