#!/bin/sh
# python3 with the packages of tools/requirements.txt where build/venv has them, else the machine's own.
root=$(dirname "$(readlink -f "$0")")/..
if [ -f "$root/build/venv/installed.txt" ]; then exec "$root/build/venv/bin/python3" "$@"; fi
exec python3 "$@"
