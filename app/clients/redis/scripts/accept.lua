-- Accept one request atomically: check idempotency and backlog limits, append the entry, put the tenant on the ring.
-- KEYS: stream, idempotency key, ring, ring members, leased tenants, backlog, nudge flag
-- ARGV: tenant, memories, size in bytes,
--       limits: tenant entries, tenant bytes, all entries, all bytes,
--       idempotency value ('' for none), its expiry in seconds, nudge milliseconds, then the entry's fields
-- Returns {1, entry id, 1 if a nudge is needed}, {0, earlier value}, or {-1, name of the limit, current value, limit}.
local tenant, memories, size = ARGV[1], ARGV[2], tonumber(ARGV[3])
local value = ARGV[8]
if value ~= '' then
  local earlier = redis.call('GET', KEYS[2])
  if earlier then return {0, earlier} end
end

local held = redis.call('HMGET', KEYS[6], 'entries', 'bytes', tenant .. ':bytes')
local entries, bytes, mine = tonumber(held[1] or 0), tonumber(held[2] or 0), tonumber(held[3] or 0)
if entries >= tonumber(ARGV[6]) then return {-1, 'all_entries', entries, tonumber(ARGV[6])} end
if bytes + size > tonumber(ARGV[7]) then return {-1, 'all_bytes', bytes, tonumber(ARGV[7])} end
local waiting = redis.call('XLEN', KEYS[1])
if waiting >= tonumber(ARGV[4]) then return {-1, 'tenant_entries', waiting, tonumber(ARGV[4])} end
if mine + size > tonumber(ARGV[5]) then return {-1, 'tenant_bytes', mine, tonumber(ARGV[5])} end

local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 11))
redis.call('HINCRBY', KEYS[6], 'entries', 1)
redis.call('HINCRBY', KEYS[6], 'bytes', size)
redis.call('HINCRBY', KEYS[6], 'memories', memories)
redis.call('HINCRBY', KEYS[6], tenant .. ':bytes', size)
redis.call('HINCRBY', KEYS[6], tenant .. ':memories', memories)
if value ~= '' then redis.call('SET', KEYS[2], value, 'EX', ARGV[9]) end
-- A leased tenant returns to the ring when its worker ends the turn.
if not redis.call('ZSCORE', KEYS[5], tenant) and redis.call('SADD', KEYS[4], tenant) == 1 then
  redis.call('RPUSH', KEYS[3], tenant)
end
-- With 0 milliseconds there is no nudge, and the flag remains free for the next request that nudges.
local nudge = tonumber(ARGV[10]) > 0 and redis.call('SET', KEYS[7], '1', 'NX', 'PX', ARGV[10])
return {1, id, nudge and 1 or 0}
