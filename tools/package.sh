#!/usr/bin/env bash
# Makes gpulens, gpulens-dev and the debug symbols as .deb, tar.gz and, where there is rpmbuild, .rpm from build/release, and looks at the
# program in the .deb. Usage: tools/package.sh [FOLDER [arm64]], by default dist/. tools/package_seal.py adds checksums and the lists of contents.
# Those of arm64 are of build/arm64, which was compiled here; manual, completions and notices of build/release, whose code is the same.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
out=$(realpath -m "${1:-dist}")
work=build/package tree=build/release machine=$(uname -m) fields=()
export CROSS="" EMULATOR=""
if [[ ${2:-} == arm64 ]]; then
  tree=build/arm64 machine=aarch64 CROSS=aarch64-linux-gnu- EMULATOR="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
  fields=(--fields build/sysroot-arm64/packages.tsv)
fi
for file in "$tree/gpulens" "$tree/libgpulens_sdk.a" "$tree"/libgpulens-{nccl-profiler,cuda,job}.so build/release/gpulens; do
  [[ -e $file ]] || { echo "package: no $file; run  ./dev package" >&2; exit 1; }
done
# The time that archives have is the commit's, so that the same commit gives the same bytes.
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || { echo "package: no commit; set SOURCE_DATE_EPOCH" >&2; exit 1; }
fi
export SOURCE_DATE_EPOCH
rm -rf "$work"
mkdir -p "$out" "$work"
# Those of this architecture, and none of the Python package.
architecture=${2:-$(dpkg --print-architecture)}
files() {
  find "$out" -maxdepth 1 \( -name "gpulens*_$architecture.deb" -o -name "gpulens*-linux-$machine.tar.gz" -o -name "gpulens*.$machine.rpm" \) "$@"
}
files -delete
python3 tools/package_files.py "$tree" "$SOURCE_DATE_EPOCH"
generators=(DEB TGZ)
if command -v rpmbuild >/dev/null; then generators+=(RPM); else echo "  no .rpm: rpmbuild is not here (Debian: rpm)"; fi
for generator in "${generators[@]}"; do
  # cpack gives files the permissions of the installation, but folders those of the umask.
  (umask 022 && cpack --config "$tree/CPackConfig.cmake" -G "$generator" -B "$work") >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
done
find "$work" -maxdepth 1 \( -name '*.deb' -o -name '*.tar.gz' -o -name '*.rpm' \) -exec mv -t "$out" {} +
# Of the packages with the SDK its archive is recorded, of all others the program.
python3 tools/sbom.py "${fields[@]}" build/release gpulens_sdk $(files -name 'gpulens-dev*' -printf '%f ')
python3 tools/sbom.py "${fields[@]}" build/release gpulens $(files ! -name 'gpulens-dev*' -printf '%f ')
dpkg -x "$out"/gpulens_*_"$architecture".deb "$work/unpacked"
tools/verify_binary.sh "$work/unpacked/usr/bin/gpulens"
files -printf '%f %s\n' | sort | awk '{printf "  %s  %.1f MB\n", $1, $2 / 1e6}'
