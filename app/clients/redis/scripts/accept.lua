-- Accept one request atomically: check idempotency and backlog limits, append the entry, put the tenant on the ring.
-- KEYS: stream, plain idempotency key, ring, ring members, leased tenants, backlog, nudge flag, last turns, mark of a
--       tenant that is being deleted, mark of this Redis, keyed idempotency keys (none without a master key)
-- ARGV: tenant, memories, size in bytes,
--       limits: tenant entries, tenant bytes, tenant memories, all entries, all bytes,
--       idempotency value ('' for none), its expiry in seconds, nudge milliseconds, then the entry's fields
-- Returns {1, entry id, 1 if a nudge is needed}, {0, earlier value}, {-2} if the tenant is being deleted, or {-1, name of
-- the limit, current value, limit, milliseconds until the drain will have made room for this request, -1 if its speed is
-- unknown}.
local tenant, memories, size = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local most_entries, most_bytes, most_memories = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local value = ARGV[9]
if redis.call('EXISTS', KEYS[9]) == 1 then return {-2} end
if value ~= '' then
  for at = 11, #KEYS do
    local earlier = redis.call('GET', KEYS[at])
    if earlier then return {0, earlier} end
  end
  local earlier = redis.call('GET', KEYS[2])
  if earlier then return {0, earlier} end
end

local held = redis.call('HMGET', KEYS[6], 'entries', 'bytes', tenant .. ':bytes', tenant .. ':memories')
local entries, bytes = tonumber(held[1] or 0), tonumber(held[2] or 0)
local own_bytes, own_memories = tonumber(held[3] or 0), tonumber(held[4] or 0)
if entries >= tonumber(ARGV[7]) then return {-1, 'all_entries', entries, tonumber(ARGV[7]), -1} end
if bytes + size > tonumber(ARGV[8]) then return {-1, 'all_bytes', bytes, tonumber(ARGV[8]), -1} end

-- The refusal by one of the tenant's limits. `excess` is the share of the tenant's backlog that has to be settled first.
local function refusal(limit, current, most, excess)
  local speed = redis.call('HMGET', KEYS[8], tenant .. ':since', tenant .. ':settled')
  local settled, wait = tonumber(speed[2] or 0), -1
  if settled > 0 then
    local clock = redis.call('TIME')
    local passed = math.max(clock[1] * 1000 + math.floor(clock[2] / 1000) - speed[1], 1)
    wait = math.ceil(math.min(excess, 1) * own_bytes * passed / settled)
  end
  return {-1, limit, current, most, wait}
end

local waiting = redis.call('XLEN', KEYS[1])
if waiting >= most_entries then
  return refusal('tenant_entries', waiting, most_entries, (waiting + 1 - most_entries) / waiting)
end
if own_bytes + size > most_bytes then
  return refusal('tenant_bytes', own_bytes, most_bytes, (own_bytes + size - most_bytes) / math.max(own_bytes, 1))
end
-- A request with more memories than the limit is accepted by an empty stream; otherwise it could never be.
if memories > 0 and waiting > 0 and own_memories + memories > most_memories then
  return refusal('tenant_memories', own_memories, most_memories,
    (own_memories + memories - most_memories) / math.max(own_memories, 1))
end

-- Nobody looks for outcomes of this Redis under a plain key if it has never accepted a request before.
if not held[1] then redis.call('HSETNX', KEYS[10], 'keyed_since', 0) end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 12))
redis.call('HINCRBY', KEYS[6], 'entries', 1)
redis.call('HINCRBY', KEYS[6], 'bytes', size)
redis.call('HINCRBY', KEYS[6], 'memories', memories)
redis.call('HINCRBY', KEYS[6], tenant .. ':bytes', size)
redis.call('HINCRBY', KEYS[6], tenant .. ':memories', memories)
if value ~= '' then
  local plain_seconds = tonumber(ARGV[10])
  for at = 11, #KEYS do redis.call('SET', KEYS[at], value, 'EX', ARGV[10]) end
  -- Versions before the keyed keys, and processes without a master key, look only under the plain key, whose digest can
  -- be guessed. They may run beside this process during a restart of all, so the plain key is also set for a day.
  if #KEYS > 10 then
    local now = tonumber(redis.call('TIME')[1])
    redis.call('HSETNX', KEYS[10], 'keyed_since', now)
    local left = tonumber(redis.call('HGET', KEYS[10], 'keyed_since')) + 86400 - now
    plain_seconds = math.min(plain_seconds, left)
  else
    redis.call('HDEL', KEYS[10], 'keyed_since')
  end
  if plain_seconds > 0 then redis.call('SET', KEYS[2], value, 'EX', plain_seconds) end
end
-- A leased tenant returns to the ring when its worker ends the turn.
if not redis.call('ZSCORE', KEYS[5], tenant) and redis.call('SADD', KEYS[4], tenant) == 1 then
  redis.call('RPUSH', KEYS[3], tenant)
end
-- With 0 milliseconds there is no nudge, and the flag remains free for the next request that nudges.
local nudge = tonumber(ARGV[11]) > 0 and redis.call('SET', KEYS[7], '1', 'NX', 'PX', ARGV[11])
return {1, id, nudge and 1 or 0}
