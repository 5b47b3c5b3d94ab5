-- Take one turn of the ring: lease the tenant at its head, and return its entries up to a quantum.
-- KEYS: ring, ring members, leased tenants, last turns, nudge flag, tenant of the latest turn, flag of shared turns
-- ARGV: stream prefix, maximum memories, entries and bytes, lease milliseconds, maximum suspects,
--       'first' on the first turn of a slice,
--       maximum memories of a shared turn, milliseconds for which turns remain shared
-- A turn is shared if another tenant has entries or had some a moment ago. Otherwise a tenant that sends one memory at a
-- time would wait for another tenant's large turn that started between two of its memories.
-- An entry without memories (touches) counts by its size, as one memory per TOUCH_BYTES.
-- Returns {} if the ring is empty. Otherwise a flat list (Redis sends one packet per level of a nested reply): tenant,
-- number of suspect entries, current time in milliseconds, then per entry: id, number of memories, header, body.
local TOUCH_BYTES = 48
local prefix = ARGV[1]
local memories_left, entries_left, bytes_left = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lease = tonumber(ARGV[5])

-- Deleted before the first read, so that every request accepted from now on sets the flag and nudges again.
if ARGV[7] == 'first' then redis.call('DEL', KEYS[5]) end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- An expired lease means that its worker died. The entries it was processing are suspect: they are redelivered singly.
-- A lease that ends later than a new one could was taken before the clock was set back, and counts as expired.
for _, span in ipairs({{'-inf', now}, {now + 2 * lease, '+inf'}}) do
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], span[1], span[2], 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[3], tenant)
    redis.call('HSET', KEYS[4], tenant .. ':suspect', '1')
    if redis.call('SADD', KEYS[2], tenant) == 1 then redis.call('RPUSH', KEYS[1], tenant) end
  end
end

local tenant = redis.call('LPOP', KEYS[1])
if not tenant then return {} end
local stream = prefix .. tenant
redis.call('SREM', KEYS[2], tenant)
redis.call('ZADD', KEYS[3], now + lease, tenant)

local flat, suspects, last = {tenant, 0, now}, 0, nil
local function hand_out(entries)
  for _, entry in ipairs(entries) do
    local fields, at = entry[2], #flat
    flat[at + 1], flat[at + 2], flat[at + 3], flat[at + 4] = entry[1], fields[2], fields[4] or '', fields[6] or ''
    last = entry[1]
  end
end

local turn = redis.call('HMGET', KEYS[4], tenant, tenant .. ':suspect')
local latest = redis.call('MGET', KEYS[6], KEYS[7])
-- The tenant of this turn is leased and has left the ring.
if redis.call('LLEN', KEYS[1]) > 0 or redis.call('ZCARD', KEYS[3]) > 1 or (latest[1] and latest[1] ~= tenant) then
  redis.call('SET', KEYS[7], '1', 'PX', ARGV[9])
  latest[2] = '1'
end
redis.call('SET', KEYS[6], tenant, 'PX', ARGV[9])
if latest[2] then memories_left = math.min(memories_left, tonumber(ARGV[8])) end
-- The drain's speed is measured from the first turn since the stream was empty.
if not turn[1] then redis.call('HSET', KEYS[4], tenant .. ':since', now, tenant .. ':settled', 0) end
if turn[2] then
  local found = turn[1] and redis.call('XRANGE', stream, '-', turn[1], 'COUNT', ARGV[6]) or {}
  suspects = #found
  flat[2] = suspects
  hand_out(found)
  if suspects == 0 then redis.call('HDEL', KEYS[4], tenant .. ':suspect') end
end

if suspects == 0 then
  local chunk = 1
  while memories_left > 0 and entries_left > 0 and bytes_left > 0 do
    local found = redis.call('XRANGE', stream, last and ('(' .. last) or '-', '+', 'COUNT', chunk)
    local memories, bytes = 0, 0
    for _, entry in ipairs(found) do
      local size, held = #(entry[2][6] or ''), tonumber(entry[2][2]) or 1
      memories = memories + (held > 0 and held or size / TOUCH_BYTES)
      bytes = bytes + size
    end
    hand_out(found)
    if #found < chunk then break end
    memories_left, entries_left, bytes_left = memories_left - memories, entries_left - #found, bytes_left - bytes
    -- Entries are usually similar: size the next read by the last one, up to a quarter of the remaining quantum.
    local room = math.min(
      memories_left / math.max(memories / #found, 1), bytes_left / math.max(bytes / #found, 1), entries_left)
    chunk = math.max(1, math.min(500, math.floor(room / 4)))
  end
  if last then redis.call('HSET', KEYS[4], tenant, last) end
end
return flat
