-- Set the mark's beat to Redis's time in milliseconds, which never goes back. Return it.
-- Return nil, and change nothing, if this isn't the expected Redis or if it is an older copy.
-- KEYS: queue mark. ARGV: expected epoch, lowest beat of a Redis that isn't an older copy.
local epoch, found = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'beat'))
found = tonumber(found or 0)
if (epoch or '') ~= ARGV[1] or found < tonumber(ARGV[2]) then
  return nil
end
local now = redis.call('TIME')
local beat = math.max(now[1] * 1000 + math.floor(now[2] / 1000), found)
redis.call('HSET', KEYS[1], 'beat', string.format('%.0f', beat))
return string.format('%.0f', beat)
