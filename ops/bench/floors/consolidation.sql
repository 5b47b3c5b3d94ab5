-- The floor of grouping: the same vectors read once, in pages, in key order.

-- name: vectors
SELECT (array_agg(memory_id ORDER BY memory_id DESC))[1], string_agg(halfvec_send(embedding), '') FROM (
  SELECT memory_id, embedding FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id > %(after)s ORDER BY memory_id LIMIT 4096
) AS page;
