#!/usr/bin/env bash
# Makes dist/*.deb and dist/*.tar.gz from build/release and looks at the program inside the .deb.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
[[ -x build/release/gpulens ]] || { echo "package: no build/release/gpulens; run  ./dev build" >&2; exit 1; }
# The time that archives have is the commit's, so that the same commit gives the same bytes.
if [[ -z ${SOURCE_DATE_EPOCH:-} ]] && epoch=$(git log -1 --format=%ct 2>/dev/null); then export SOURCE_DATE_EPOCH=$epoch; fi
rm -rf dist/*.deb dist/*-linux-*.tar.gz build/package
mkdir -p dist build/package
for generator in DEB TGZ; do
  cpack --config build/release/CPackConfig.cmake -G "$generator" -B build/package >build/package/log 2>&1 ||
    { cat build/package/log >&2; exit 1; }
done
mv build/package/*.deb build/package/*.tar.gz dist/
dpkg -x dist/*.deb build/package/unpacked
tools/verify_binary.sh build/package/unpacked/usr/bin/gpulens
find dist -type f -printf '%p %s\n' | sort | awk '{printf "  %s  %.1f MB\n", $1, $2 / 1e6}'
