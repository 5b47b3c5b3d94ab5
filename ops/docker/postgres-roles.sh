#!/bin/sh
# Runs once, when PostgreSQL makes its data directory: the service logs in as `ebbing`, which owns nothing and
# works as `ebbing_app` or `ebbing_drain`; only `ebbing migrate` logs in as the owner.
set -eu
psql --set ON_ERROR_STOP=1 --quiet --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$DATABASE_PASSWORD" <<'SQL'
CREATE ROLE ebbing_app NOLOGIN;
CREATE ROLE ebbing_drain NOLOGIN BYPASSRLS;
CREATE ROLE ebbing LOGIN NOINHERIT PASSWORD :'password';
GRANT ebbing_app, ebbing_drain TO ebbing;
SQL
