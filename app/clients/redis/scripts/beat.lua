-- Set the mark's beat to Redis's time in milliseconds, which never goes back. Return it.
-- KEYS: queue mark
local now = redis.call('TIME')
local beat = math.max(now[1] * 1000 + math.floor(now[2] / 1000), tonumber(redis.call('HGET', KEYS[1], 'beat') or 0))
redis.call('HSET', KEYS[1], 'beat', string.format('%.0f', beat))
return string.format('%.0f', beat)
