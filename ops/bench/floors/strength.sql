-- The floor of live strength: a scan of the same rows with three exponentials per row.

-- name: three_exp
SELECT sum(exp(salience * '-0.1'::float8) + exp(salience * '-0.2'::float8) + exp(salience * '-0.3'::float8))
FROM memory_state WHERE tenant_id = %(tenant)s;
