#!/usr/bin/env bash
# Back up what a team's deployment keeps: the databases of PostgreSQL (Dagster's runs, the lake's catalog) and the data folder.
#   deploy/backup.sh FOLDER [DATA_FOLDER]
# The server is named by the variables of PostgreSQL's own programs (PGHOST, PGPORT, PGUSER, PGPASSFILE). Each backup is a folder
# of its own, which appears under its name when it is whole.
set -euo pipefail
umask 077 # a backup holds all that the databases and the data folder do
into=${1:?the folder of backups} data=${2:-}
name=$(date -u +%Y%m%dT%H%M%SZ)
part="$into/.$name.part"
mkdir -p "$part"
trap 'rm -rf "$part"' EXIT
rows() { # the files of a lake's rows
  [ -z "$data" ] || { find "$data" -name 'ducklake-*.parquet' -type f 2>/dev/null || true; } | LC_ALL=C sort
}
before=$(rows)
databases=$(psql -XAtd postgres -c "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'")
while IFS= read -r database; do
  [ -z "$database" ] || pg_dump --format=custom --file="$part/$database.dump" "$database" </dev/null
done <<<"$databases"
# The catalog of a lake first, its rows after it: sweeps only add files of rows, so that all that the catalog names are in the
# backup. A compaction removes such files, also before tar lists them: the backup would lack rows that its catalog names.
# tar ends with 1 where a file grew meanwhile, such as the journal of a sweep that is under way.
named=$(printf '%s\n%s\n' "$before" "$(rows)" | sed '/^$/d' | LC_ALL=C sort -u)
[ -z "$data" ] || tar -C "$data" -cf "$part/data.tar" . || [ $? = 1 ]
removed=$(LC_ALL=C comm -23 <(echo "$named") <(rows))
if [ -n "$removed" ]; then
  echo "no backup: files of rows were removed meanwhile, as a compaction does; run this again without one. The first: ${removed%%$'\n'*}" >&2
  exit 1
fi
mv "$part" "$into/$name"
trap - EXIT
echo "$into/$name"
