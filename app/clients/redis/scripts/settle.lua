-- Settle a turn: delete entries whose outcome is committed, reduce the backlog, return the tenant to the ring.
-- KEYS: stream, ring, ring members, leased tenants, last turns, backlog, attempts
-- ARGV: tenant, 'hold' to retain the lease for the rest of the turn or 'free', bytes, memories, then the entries' ids
-- Returns the number of entries left in the stream.
local tenant = ARGV[1]
local bytes, memories = tonumber(ARGV[3]), tonumber(ARGV[4])
local entries, asked = 0, #ARGV - 4
local tried = redis.call('HLEN', KEYS[7]) > 0
local LOT = 1000  -- below the limit of Lua's unpack

for first = 5, #ARGV, LOT do
  local past = math.min(first + LOT - 1, #ARGV)
  entries = entries + redis.call('XDEL', KEYS[1], unpack(ARGV, first, past))
  if tried then
    for i = first, past do redis.call('HDEL', KEYS[7], tenant .. ':' .. ARGV[i]) end
  end
end
if entries < asked then
  -- Some were already settled by a worker presumed dead: subtract proportionally; exact again once the stream is empty.
  bytes, memories = math.floor(bytes * entries / asked), math.floor(memories * entries / asked)
end

-- Subtracted from 0 because older versions of Redis format a negated 0 as "-0", which they reject.
local left = redis.call('XLEN', KEYS[1])
if left == 0 then
  -- The stream is empty: remove the tenant's counters with any rounding error.
  bytes = tonumber(redis.call('HGET', KEYS[6], tenant .. ':bytes') or 0)
  memories = tonumber(redis.call('HGET', KEYS[6], tenant .. ':memories') or 0)
  redis.call('HDEL', KEYS[6], tenant .. ':bytes', tenant .. ':memories')
else
  redis.call('HINCRBY', KEYS[6], tenant .. ':bytes', 0 - bytes)
  redis.call('HINCRBY', KEYS[6], tenant .. ':memories', 0 - memories)
end
-- Entries that another program wrote into the stream were never counted: without the limit of 0, they would hide as many
-- lost requests from the comparison of the counter with the streams.
local settled = {entries = entries, bytes = bytes, memories = memories}
for counter, amount in pairs(settled) do
  if redis.call('HINCRBY', KEYS[6], counter, 0 - amount) < 0 then redis.call('HSET', KEYS[6], counter, 0) end
end

-- The settled bytes since a time tell the drain's speed. Both are halved about every WINDOW, so that old turns fade.
local WINDOW = 10000
local since = left > 0 and redis.call('HGET', KEYS[5], tenant .. ':since')
if since then
  local clock = redis.call('TIME')
  local passed = clock[1] * 1000 + math.floor(clock[2] / 1000) - since
  local done = redis.call('HINCRBY', KEYS[5], tenant .. ':settled', bytes)
  if passed > WINDOW then
    local half = math.floor(passed / 2)
    redis.call('HSET', KEYS[5], tenant .. ':since', since + half, tenant .. ':settled', math.floor(done / 2))
  end
end

if ARGV[2] == 'free' then
  redis.call('ZREM', KEYS[4], tenant)
  if left == 0 then
    redis.call('HDEL', KEYS[5], tenant, tenant .. ':suspect', tenant .. ':since', tenant .. ':settled')
  elseif redis.call('SADD', KEYS[3], tenant) == 1 then
    redis.call('RPUSH', KEYS[2], tenant)
  end
end
return left
