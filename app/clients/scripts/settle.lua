-- Entries are stored (or set aside): acknowledge and delete them, lower the backlog, leave the ring when empty.
-- KEYS: stream, ring, ring members, backlog, attempts
-- ARGV: tenant, group, then id, size in bytes, memories of each entry
-- Returns the entries left in the stream.
local tenant = ARGV[1]
local entries, bytes, memories = 0, 0, 0
for i = 3, #ARGV, 3 do
  redis.call('XACK', KEYS[1], ARGV[2], ARGV[i])
  -- Only who deletes it counts it: an entry settled twice is subtracted once.
  if redis.call('XDEL', KEYS[1], ARGV[i]) == 1 then
    entries, bytes, memories = entries + 1, bytes + ARGV[i + 1], memories + ARGV[i + 2]
  end
  redis.call('HDEL', KEYS[5], tenant .. ':' .. ARGV[i])
end
redis.call('HINCRBY', KEYS[4], 'entries', -entries)
redis.call('HINCRBY', KEYS[4], 'bytes', -bytes)
local left = redis.call('XLEN', KEYS[1])
if left == 0 then
  redis.call('HDEL', KEYS[4], tenant .. ':bytes', tenant .. ':memories')
  if redis.call('SREM', KEYS[3], tenant) == 1 then redis.call('LREM', KEYS[2], -1, tenant) end
else
  redis.call('HINCRBY', KEYS[4], tenant .. ':bytes', -bytes)
  redis.call('HINCRBY', KEYS[4], tenant .. ':memories', -memories)
end
return left
