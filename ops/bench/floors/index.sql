-- The floors of the index stage: one INSERT per batch, by a role that bypasses row-level security.

-- name: prepare
-- Precomputed words of a tenant's memories, and empty tables like the real one. The index on one of them adds new rows
-- to its pending list, as it does by default, so some of its work is deferred.
CREATE SCHEMA IF NOT EXISTS bench;
DROP TABLE IF EXISTS bench.ready, bench.plain, bench.indexed;
CREATE TABLE bench.ready AS
  SELECT row_number() OVER (ORDER BY memory_id) AS place, tenant_id, memory_id, text_version, own, words
  FROM memory_words WHERE tenant_id = '{tenant}';
ALTER TABLE bench.ready ADD PRIMARY KEY (place);
CREATE TABLE bench.plain (LIKE memory_words INCLUDING ALL);
CREATE TABLE bench.indexed (LIKE memory_words INCLUDING ALL);
CREATE INDEX ON bench.indexed USING gin (words);

-- name: ready
INSERT INTO bench.plain (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, text_version, own, words FROM bench.ready
WHERE place > {after} AND place <= {until};

-- name: ready_indexed
INSERT INTO bench.indexed (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, text_version, own, words FROM bench.ready
WHERE place > {after} AND place <= {until};

-- name: to_tsvector
-- The same words of each memory, computed once, without its neighbours' words and without counting. OFFSET 0 prevents
-- the planner from computing them for each column.
INSERT INTO bench.plain (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, text_version, own, own
FROM (
  SELECT tenant_id, memory_id, text_version, strip(to_tsvector('english', concat_ws(' ',
    to_char(coalesce(occurred_at, created_at) AT TIME ZONE 'UTC', 'FMDD FMMonth YYYY'), speaker, text))) AS own
  FROM memories WHERE tenant_id = '{tenant}' AND memory_id = ANY ('{ids}'::uuid[])
  OFFSET 0
) AS made;

-- name: drop
DROP SCHEMA bench CASCADE;
