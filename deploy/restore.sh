#!/usr/bin/env bash
# Restore a backup of backup.sh into databases and a data folder that are not there yet.
#   deploy/restore.sh BACKUP [DATA_FOLDER]
set -euo pipefail
from=${1:?the folder of one backup} data=${2:-}
if [ -f "$from/data.tar" ]; then
  : "${data:?the backup has a data folder: name where it shall be}"
  [ ! -e "$data" ] || [ -z "$(ls -A "$data")" ] || { echo "$data is not empty" >&2; exit 1; }
  mkdir -p "$data"
  tar -C "$data" -xf "$from/data.tar"
fi
for dump in "$from"/*.dump; do
  database=$(basename "$dump" .dump)
  createdb "$database"
  pg_restore --exit-on-error --no-owner --dbname="$database" "$dump"
  echo "restored $database"
done
