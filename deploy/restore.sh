#!/usr/bin/env bash
# Restore a backup of backup.sh into databases and a data folder that are not there yet.
#   deploy/restore.sh BACKUP [DATA_FOLDER]
# Owners and rights of tables come back too, so their roles have to exist; PG_RESTORE_OPTIONS=--no-owner restores without them.
set -euo pipefail
from=${1:?the folder of one backup} data=${2:-}
[ -d "$from" ] || { echo "$from is no folder of a backup" >&2; exit 1; }
if [ -f "$from/data.tar" ]; then
  : "${data:?the backup has a data folder: name where it shall be}"
  [ ! -e "$data" ] || [ -z "$(ls -A "$data")" ] || { echo "$data is not empty" >&2; exit 1; }
  psql -XAtd postgres -c 'SELECT 1' >/dev/null # before anything is written
  mkdir -p "$data"
  tar -C "$data" -xf "$from/data.tar"
fi
shopt -s nullglob
for dump in "$from"/*.dump; do
  database=$(basename "$dump" .dump)
  createdb "$database"
  # shellcheck disable=SC2086 -- several options
  pg_restore --exit-on-error ${PG_RESTORE_OPTIONS:-} --dbname="$database" "$dump"
  echo "restored $database"
done
