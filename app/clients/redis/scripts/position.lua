-- Return a new position of the stream: after all existing entries and before all later ones. No entry remains.
-- KEYS: stream
local id = redis.call('XADD', KEYS[1], '*', 'position', '')
redis.call('XDEL', KEYS[1], id)
return id
