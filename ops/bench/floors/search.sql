-- The floors of search: the two scans that it needs, by a role that no row-level security stops.

-- name: vectors
SELECT memory_id FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s
ORDER BY embedding <=> %(vector)s::halfvec LIMIT 10;

-- name: words
SELECT count(*) FROM memory_words WHERE tenant_id = %(tenant)s AND words @@ %(any)s::tsquery;
