-- Return the first and the last entry id of each stream, '' for both if it is empty.
-- KEYS: streams
local edges = {}
for _, stream in ipairs(KEYS) do
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  edges[#edges + 1] = first and first[1] or ''
  edges[#edges + 1] = last and last[1] or ''
end
return edges
