-- The floors of what keeps strengths: plain UPDATEs of the same rows, by a role that no row-level security stops.

-- name: looks
-- What a sweep writes, its values known before.
UPDATE memory_state AS state SET wanted_tier = 'archived', next_due_at = now() + interval '30 days'
FROM unnest(%(ids)s) AS given (memory_id)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id;

-- name: anchors
-- What a rebase writes, its values known before: a slice by id, as it goes.
UPDATE memory_state
SET anchored_at = now(), level = level - 0.1, policy_version = policy_version, next_due_at = now() + interval '30 days'
WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND memory_id <= %(last)s;

-- name: uses
-- What a touch writes, without its entry in the history.
UPDATE memory_state AS state
SET access_count = access_count + 1, accessed_at = now(), anchored_at = now(), level = level * 0.9
FROM unnest(%(ids)s) AS given (memory_id)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id;
