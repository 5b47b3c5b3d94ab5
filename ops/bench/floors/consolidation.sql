-- The floor of finding what belongs together: the same vectors read once, in the order in which they lie.

-- name: vectors
COPY (SELECT embedding FROM embeddings WHERE tenant_id = {tenant} AND space_id = {space}) TO STDOUT (FORMAT binary);
