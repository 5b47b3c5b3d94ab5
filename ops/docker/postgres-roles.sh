#!/bin/sh
# Runs once, when PostgreSQL makes its data directory: the service logs in as `ebbing_service`, which owns nothing
# and works as `ebbing_app` or `ebbing_drain` (the migration makes and grants these). Only `ebbing migrate` logs in
# as the superuser.
set -eu
psql --set ON_ERROR_STOP=1 --quiet --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$DATABASE_PASSWORD" <<'SQL'
CREATE ROLE ebbing_service LOGIN NOINHERIT PASSWORD :'password';
SQL
