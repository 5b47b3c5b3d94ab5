-- Compare the requests in the streams with the backlog counter, atomically.
-- KEYS: ring members, leased tenants, backlog
-- ARGV: stream prefix, maximum number of tenants
-- Returns {requests counted, requests in the streams}; {} if more tenants have pending requests.
local waiting = redis.call('SMEMBERS', KEYS[1])
local seen = {}
for _, tenant in ipairs(waiting) do seen[tenant] = true end
for _, tenant in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if not seen[tenant] then waiting[#waiting + 1] = tenant end
end
if #waiting > tonumber(ARGV[2]) then return {} end
local there = 0
for _, tenant in ipairs(waiting) do there = there + redis.call('XLEN', ARGV[1] .. tenant) end
return {tonumber(redis.call('HGET', KEYS[3], 'entries') or 0), there}
