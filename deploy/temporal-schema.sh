#!/bin/sh
# Make Temporal's two databases, or bring them to the schema of this version. Safe to run again.
set -eu
SQL_PASSWORD=$(cat /run/secrets/saga_database_password)
export SQL_PASSWORD

for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*}
  schema=/etc/temporal/schema/postgresql/v12/${pair##*:}/versioned
  tool="temporal-sql-tool --plugin postgres12 --ep postgres --port 5432 --user saga --db $database"
  if ! $tool update-schema --schema-dir "$schema"; then # there is none yet
    $tool create || true
    $tool setup-schema --version 0.0
    $tool update-schema --schema-dir "$schema"
  fi
done
