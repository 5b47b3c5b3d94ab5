-- The floors of strength maintenance: plain UPDATEs of the same rows, by a role that bypasses row-level security.

-- name: looks
-- The writes of a sweep, with known values.
UPDATE memory_state AS state SET wanted_tier = 'archived', next_due_at = now() + interval '30 days'
FROM unnest(%(ids)s) AS given (memory_id)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id;

-- name: anchors
-- The writes of a rebase, with known values: slices by id.
UPDATE memory_state
SET anchored_at = now(), level = level - 0.1, policy_version = policy_version, next_due_at = now() + interval '30 days'
WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND memory_id <= %(last)s;

-- name: uses
-- The writes of a touch, without its entry in the history.
UPDATE memory_state AS state
SET access_count = access_count + 1, accessed_at = now(), anchored_at = now(), level = level * 0.9
FROM unnest(%(ids)s) AS given (memory_id)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id;
