#!/bin/sh
# Runs once, when PostgreSQL makes its data directory: the service logs in as `ebbing_service`, which owns nothing
# and works as `ebbing_app` or `ebbing_drain` (the migration makes and grants these). Only `ebbing migrate` logs in
# as the superuser. The password is in DATABASE_PASSWORD, or in the file that DATABASE_PASSWORD_FILE names.
set -eu
password="${DATABASE_PASSWORD:-$(cat "$DATABASE_PASSWORD_FILE")}"
: "${password:?}"
psql --set ON_ERROR_STOP=1 --quiet --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$password" <<'SQL'
CREATE ROLE ebbing_service LOGIN NOINHERIT PASSWORD :'password';
SQL
