-- A turn is over: delete the entries whose fate is committed, lower the backlog, give the tenant back to the ring.
-- KEYS: stream, ring, ring members, held tenants, last turns, backlog, attempts
-- ARGV: tenant, 'hold' to keep the lease for the rest of the turn or 'free', bytes, memories, then the entries' ids
-- Returns the entries left in the stream.
local tenant = ARGV[1]
local bytes, memories = tonumber(ARGV[3]), tonumber(ARGV[4])
local entries, asked = 0, #ARGV - 4
local tried = redis.call('HLEN', KEYS[7]) > 0
local LOT = 1000  -- below what Lua can unpack at once

for first = 5, #ARGV, LOT do
  local past = math.min(first + LOT - 1, #ARGV)
  entries = entries + redis.call('XDEL', KEYS[1], unpack(ARGV, first, past))
  if tried then
    for i = first, past do redis.call('HDEL', KEYS[7], tenant .. ':' .. ARGV[i]) end
  end
end
if entries < asked then
  -- Some were settled before, by a worker thought dead: subtract by shares; exact again when the stream is empty.
  bytes, memories = math.floor(bytes * entries / asked), math.floor(memories * entries / asked)
end

-- Subtracted from 0, since older versions of Redis read a negated 0 as "-0", which they refuse.
local left = redis.call('XLEN', KEYS[1])
if left == 0 then
  -- Whatever rounding there was: an empty stream holds nothing, and nothing of it is kept.
  bytes = tonumber(redis.call('HGET', KEYS[6], tenant .. ':bytes') or 0)
  memories = tonumber(redis.call('HGET', KEYS[6], tenant .. ':memories') or 0)
  redis.call('HDEL', KEYS[6], tenant .. ':bytes', tenant .. ':memories')
else
  redis.call('HINCRBY', KEYS[6], tenant .. ':bytes', 0 - bytes)
  redis.call('HINCRBY', KEYS[6], tenant .. ':memories', 0 - memories)
end
redis.call('HINCRBY', KEYS[6], 'entries', 0 - entries)
redis.call('HINCRBY', KEYS[6], 'bytes', 0 - bytes)
redis.call('HINCRBY', KEYS[6], 'memories', 0 - memories)

if ARGV[2] == 'free' then
  redis.call('ZREM', KEYS[4], tenant)
  if left == 0 then
    redis.call('HDEL', KEYS[5], tenant, tenant .. ':suspect')
  elseif redis.call('SADD', KEYS[3], tenant) == 1 then
    redis.call('RPUSH', KEYS[2], tenant)
  end
end
return left
