-- One turn of the ring: the tenant at its head, what dead workers left of it, and new entries up to a quantum.
-- KEYS: ring, ring members, parked tenants, nudge flag
-- ARGV: stream prefix, group, consumer, most memories, most entries, most bytes, claim idle milliseconds,
--       'first' on the first turn of a slice
-- Returns {tenant, abandoned entries, new entries}, or {} when the ring is empty.
local prefix, group, consumer = ARGV[1], ARGV[2], ARGV[3]
local memories_left, entries_left, bytes_left = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local idle = tonumber(ARGV[7])

-- Deleted before the first read: whatever is accepted from here on sets a flag and a nudge of its own.
if ARGV[8] == 'first' then redis.call('DEL', KEYS[4]) end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[3], tenant)
  if redis.call('SADD', KEYS[2], tenant) == 1 then redis.call('RPUSH', KEYS[1], tenant) end
end

local tenant = redis.call('LMOVE', KEYS[1], KEYS[1], 'LEFT', 'RIGHT')
if not tenant then return {} end
local stream = prefix .. tenant

local abandoned = {}
local claim = redis.pcall('XAUTOCLAIM', stream, group, consumer, idle, '0-0', 'COUNT', 20)
if claim.err then
  redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
else
  for _, entry in ipairs(claim[2]) do
    -- An entry deleted while it was pending comes as nil and stays pending for ever unless acknowledged.
    if entry and entry[2] then abandoned[#abandoned + 1] = entry end
  end
  if #abandoned < #claim[2] then
    for _, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', 100, consumer)) do
      if #redis.call('XRANGE', stream, pending[1], pending[1]) == 0 then redis.call('XACK', stream, group, pending[1]) end
    end
  end
end

local fresh = {}
if #abandoned == 0 then
  local chunk = 1
  while memories_left > 0 and entries_left > 0 and bytes_left > 0 do
    local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', chunk, 'STREAMS', stream, '>')
    if not read then break end
    local memories, bytes = 0, 0
    for _, entry in ipairs(read[1][2]) do
      fresh[#fresh + 1] = entry
      memories = memories + (tonumber(entry[2][4]) or 1)
      bytes = bytes + #entry[2][#entry[2]]
    end
    local count = #read[1][2]
    if count < chunk then break end
    memories_left, entries_left, bytes_left = memories_left - memories, entries_left - count, bytes_left - bytes
    -- Entries are alike as a rule: take the next lot by the size of the last, a quarter of the room at most.
    local room = math.min(
      memories_left / math.max(memories / count, 1), bytes_left / math.max(bytes / count, 1), entries_left)
    chunk = math.max(1, math.min(100, math.floor(room / 4)))
  end
end

if #abandoned == 0 and #fresh == 0 then
  -- Nothing to read: the stream is empty, or others hold the rest. Off the ring; parked until a claim may lapse.
  redis.call('SREM', KEYS[2], tenant)
  redis.call('LREM', KEYS[1], -1, tenant)
  if redis.call('XLEN', stream) > 0 then redis.call('ZADD', KEYS[3], now + idle, tenant) end
end
return {tenant, abandoned, fresh}
