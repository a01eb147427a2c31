#!/usr/bin/env bash
# Writes tools/pinned/NAME.txt again: every Python package that is fetched for an environment, with its version and the digests of its
# files, so that pip takes no other bytes. tools/pin_requirements.sh [--upgrade] [NAME…]
#   venv        of tools/requirements.txt: what the tests use
#   chdb sbom focus litellm   of the lines below
# Versions stay as they are where they still fit; --upgrade takes the newest. It needs uv (pip install uv), which resolves for all platforms.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
command -v uv >/dev/null || { echo "pin_requirements: uv is not here: pip install uv in an environment of its own" >&2; exit 1; }

pin() { # NAME PYTHON REQUIREMENTS-FILE
  uv pip compile --quiet --universal --python-version "$2" --generate-hashes --no-header --no-annotate "${upgrade[@]}" "$3" -o "tools/pinned/$1.txt"
  echo "  tools/pinned/$1.txt: $(grep -c == "tools/pinned/$1.txt") packages"
}
lines() { printf '%s\n' "$@"; }

upgrade=()
[[ ${1:-} == --upgrade ]] && upgrade=(--upgrade) && shift
(($#)) || set -- venv chdb sbom focus litellm
mkdir -p tools/pinned
for name in "$@"; do
  case $name in
  venv) pin venv 3.11 tools/requirements.txt ;;
  chdb) lines chdb==4.4.0 | pin chdb 3.11 - ;;
  sbom) lines 'cyclonedx-python-lib[json-validation]==11.12.0' spdx-tools==0.8.5 | pin sbom 3.11 - ;;
  # It pins a NumPy that later pyarrows refuse.
  focus) lines focus-validator==2.2.1 pyarrow==19.0.1 | pin focus 3.12 - ;;
  # Of its own: it pins many packages that build/venv has in other versions.
  litellm) lines litellm==1.110.2 | pin litellm 3.11 - ;;
  *) echo "pin_requirements: no \"$name\"; they are venv chdb sbom focus litellm" >&2 && exit 1 ;;
  esac
done
