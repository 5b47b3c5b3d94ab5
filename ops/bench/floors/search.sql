-- The floors of search: the two queries that it needs, by a role that bypasses row-level security.

-- name: vectors
SELECT memory_id FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s
ORDER BY embedding <=> %(vector)s::halfvec LIMIT 10;

-- name: words
SELECT count(*) FROM memory_words WHERE tenant_id = %(tenant)s AND words @@ %(any)s::tsquery;

-- The same queries for a tenant with its own indexes; the number of dimensions is inserted.

-- name: graph
SELECT memory_id FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND grafted
ORDER BY embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) LIMIT 200;

-- name: index
SELECT memory_id FROM memory_words WHERE tenant_id = %(tenant)s AND words @@ %(worth)s::tsquery;

-- Copies of a tenant's rows for another tenant, table by table; the ids may be equal.

-- name: copy_memories
INSERT INTO memories (tenant_id, memory_id, seq, thread, speaker, text, created_at)
SELECT tenant, memory_id, seq, thread, speaker, text, created_at
FROM memories CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant WHERE tenant_id = %(template)s ORDER BY tenant, memory_id;

-- name: copy_states
INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at, policy_version)
SELECT tenant, memory_id, created_at, accessed_at, anchored_at, policy_version
FROM memory_state CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant WHERE tenant_id = %(template)s
ORDER BY tenant, memory_id;

-- name: copy_memory_words
INSERT INTO memory_words (tenant_id, memory_id, text_version, own, words)
SELECT tenant, memory_id, text_version, own, words
FROM memory_words CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant WHERE tenant_id = %(template)s
ORDER BY tenant, memory_id;

-- name: copy_words
INSERT INTO words (tenant_id, word, documents)
SELECT tenant, word, documents
FROM words CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant WHERE tenant_id = %(template)s ORDER BY tenant, word;

-- name: copy_embeddings
INSERT INTO embeddings (tenant_id, space_id, memory_id, text_version, embedding)
SELECT tenant, space_id, memory_id, text_version, embedding
FROM embeddings CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant WHERE tenant_id = %(template)s
ORDER BY tenant, memory_id;

-- name: copy_spaces
INSERT INTO tenant_spaces (tenant_id, space_id)
SELECT tenant, space_id FROM tenant_spaces CROSS JOIN unnest(%(tenants)s::uuid[]) AS tenant
WHERE tenant_id = %(template)s;
