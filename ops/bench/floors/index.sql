-- The floors of the index stage.

-- name: prepare
-- Ready-made words of a tenant's memories, and an empty table like the real one.
CREATE SCHEMA IF NOT EXISTS bench;
DROP TABLE IF EXISTS bench.ready, bench.written;
CREATE TABLE bench.ready AS
  SELECT row_number() OVER (ORDER BY memory_id) AS place, tenant_id, memory_id, text_version, own, words
  FROM memory_words WHERE tenant_id = '{tenant}';
ALTER TABLE bench.ready ADD PRIMARY KEY (place);
CREATE TABLE bench.written (LIKE memory_words INCLUDING ALL);

-- name: insert
INSERT INTO bench.written (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, text_version, own, words FROM bench.ready
WHERE place > {after} AND place <= {until};

-- name: to_tsvector
INSERT INTO bench.written (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, text_version, vector, vector
FROM (
  SELECT tenant_id, memory_id, text_version, to_tsvector('english', concat_ws(' ', speaker, text)) AS vector
  FROM memories WHERE tenant_id = '{tenant}' AND memory_id = ANY ('{ids}'::uuid[])
) AS made;

-- name: drop
DROP SCHEMA bench CASCADE;
