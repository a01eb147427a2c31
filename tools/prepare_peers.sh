#!/usr/bin/env bash
# Fetches what the end-to-end tests talk to, into build/ and nowhere else:
#   build/peers  prometheus, promtool, prometheus-node-exporter, prometheus-alertmanager, nginx, redis-server: unpacked, not
#                installed, so no service starts
#   build/compose  docker-compose and its Python packages, unpacked in the same way
#   build/slurm  slurmctld, slurmd and Slurm's programs, unpacked in the same way
#   build/postgres  a PostgreSQL server, unpacked in the same way
#   build/venv   a Python environment with tools/requirements.txt. Versions and digests of all packages of Python are in tools/pinned
#                (tools/pin_requirements.sh): pip takes nothing else
#   build/page_tests  playwright-core and axe-core, as tests/page/package-lock.json names them; with --page-tests nothing else
#   build/litellm  a Python environment with litellm, whose packages have other versions
#   build/npm_clients  the clients of LLM APIs that tests/e2e/npm/package-lock.json names
#   build/chdb   with --chdb alone, as it is large: one with chdb, ClickHouse's engine in a package
#   build/focus  with --chdb alone, where there is a Python 3.12 or later: one with focus-validator
#   build/sbom   with --chdb alone: one that knows the schemas of CycloneDX and SPDX
#   build/registry  with --registry alone: docker-registry, unpacked in the same way, to which ./dev release --dry-run pushes
# Run again it does nothing. Exit 1 when something could not be had, after saying what and why.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
result=0

download() { (cd "$1" && timeout 300 apt-get download -qq "${@:2}") >"$1/log" 2>&1; }

# unpack FOLDER PACKAGE…: into build/FOLDER
unpack() {
  local folder=$1 work=build/$1.new package
  shift
  command -v apt-get >/dev/null || { report "$folder: no apt-get here"; return 1; }
  rm -rf "$work" && mkdir -p "$work"
  download "$work" "$@" || { ((EUID == 0)) && apt-get update -qq && download "$work" "$@"; } ||
    { report "$folder: apt-get download failed: $(tail -n 1 "$work/log")"; return 1; }
  for package in "$work"/*.deb; do
    dpkg -x "$package" "$work" || { report "$folder: cannot unpack $package"; return 1; }
  done
  rm -rf "$work"/*.deb "build/$folder" && mv "$work" "build/$folder"
}

peers() {
  local bin=build/peers/usr/bin
  [[ -x $bin/prometheus && -x $bin/promtool && -x $bin/prometheus-node-exporter && -x $bin/prometheus-alertmanager &&
    -x build/peers/usr/sbin/nginx && -x build/peers/usr/bin/redis-server ]] && return 0
  # The libraries of redis-server come along where the names are Debian 12's: few machines have them.
  local libraries=() library
  for library in libjemalloc2 liblzf1; do
    apt-cache show "$library" >/dev/null 2>&1 && libraries+=("$library")
  done
  unpack peers prometheus prometheus-node-exporter prometheus-alertmanager nginx redis-server redis-tools "${libraries[@]}"
}

# Debian 12's is a program in Python; later ones have a plugin of docker, which is one program without packages.
compose() {
  local packages=(docker-compose) package
  compgen -G "build/compose/usr/bin/docker-compose" >/dev/null && return 0
  for package in cached-property distro docker dockerpty docopt dotenv jsonschema requests texttable websocket yaml pyrsistent attr urllib3 \
    certifi chardet idna six setuptools pkg-resources packaging; do
    apt-cache show "python3-$package" >/dev/null 2>&1 && packages+=("python3-$package")
  done
  unpack compose "${packages[@]}"
}

# Its libraries, too: few machines have them.
slurm() {
  [[ -x build/slurm/usr/sbin/slurmctld-wlm && -x build/slurm/usr/sbin/slurmd-wlm ]] && return 0
  unpack slurm slurm-client slurmctld slurmd slurm-wlm-basic-plugins libmunge2 libhwloc15 libjson-c5 liblua5.1-0 \
    libyaml-0-2 libnuma1 liblz4-1 libreadline8 libdbus-1-3
}

# The version is the distribution's. Its libraries come along where the names are Debian 12's.
postgres() {
  compgen -G "build/postgres/usr/lib/postgresql/*/bin/postgres" >/dev/null && return 0
  local version libraries=() library
  version=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p')
  for library in libicu72 libxml2 libldap-2.5-0 libsasl2-2; do
    apt-cache show "$library" >/dev/null 2>&1 && libraries+=("$library")
  done
  unpack postgres "postgresql-${version:-15}" "postgresql-client-${version:-15}" libpq5 "${libraries[@]}"
}

registry() {
  [[ -x build/registry/usr/bin/docker-registry ]] && rm -f build/registry.why && return
  unpack registry docker-registry && rm -f build/registry.why && return
  echo "docker-registry cannot be fetched" >build/registry.why
  return 1
}

# pinned VENV NAME: installs tools/pinned/NAME.txt, and nothing of which the digest is another one.
pinned() {
  timeout 600 "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 30 --require-hashes -r "tools/pinned/$2.txt"
}

# environment NAME: build/NAME with tools/pinned/NAME.txt. The stamp is a copy of that file: changed packages are installed again.
environment() {
  local folder=build/$1 log=build/$1.log
  cmp -s "tools/pinned/$1.txt" "$folder/installed.txt" && return 0
  rm -rf "$folder"
  python3 -m venv "$folder" >"$log" 2>&1 || { report "$1: $(tail -n 1 "$log")"; return 1; }
  pinned "$folder" "$1" >"$log" 2>&1 || { report "$1: pip: $(tail -n 1 "$log")"; return 1; }
  cp "tools/pinned/$1.txt" "$folder/installed.txt"
}

# npm_packages FOLDER SOURCE: installs what SOURCE/package-lock.json names into build/FOLDER. The stamp is a copy of that file.
npm_packages() {
  local folder=build/$1 log=build/$1.log lock=$2/package-lock.json
  cmp -s "$lock" "$folder/installed.json" && return 0
  command -v npm >/dev/null || { report "$1: npm is not here"; return 1; }
  rm -rf "$folder" && mkdir -p "$folder"
  cp "$2/package.json" "$lock" "$folder/"
  (cd "$folder" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) >"$log" 2>&1 ||
    { report "$1: npm: $(tail -n 1 "$log")"; return 1; }
  cp "$lock" "$folder/installed.json"
}

# The browser is the system's: nothing is fetched but the two packages.
page_tests() { npm_packages page_tests tests/page; }
npm_clients() { npm_packages npm_clients tests/e2e/npm; }

chdb() {
  local log=build/chdb.log
  [[ -e build/chdb/installed ]] && return 0
  rm -rf build/chdb
  python3 -m venv build/chdb >"$log" 2>&1 || { report "chdb: $(tail -n 1 "$log")"; return 1; }
  pinned build/chdb chdb >"$log" 2>&1 || { report "chdb: pip: $(tail -n 1 "$log")"; rm -rf build/chdb; return 1; }
  touch build/chdb/installed
}

# focus-validator pins a NumPy that later pyarrows refuse.
focus() {
  local log=build/focus.log python
  [[ -e build/focus/installed ]] && return 0
  python=$(python3 tools/pythons.py | awk -F'\t' '$1 ~ /^3\.(1[2-9]|[2-9][0-9])$/ { print $2; exit }')
  [[ -n $python ]] || { echo "focus-validator: left out, as it needs Python 3.12 or later" >&2; return 0; }
  rm -rf build/focus
  "$python" -m venv build/focus >"$log" 2>&1 || { report "focus: $(tail -n 1 "$log")"; return 1; }
  pinned build/focus focus >"$log" 2>&1 || { report "focus: pip: $(tail -n 1 "$log")"; rm -rf build/focus; return 1; }
  touch build/focus/installed
}

sbom() {
  local log=build/sbom.log
  [[ -e build/sbom/installed ]] && return 0
  rm -rf build/sbom
  python3 -m venv build/sbom >"$log" 2>&1 || { report "sbom: $(tail -n 1 "$log")"; return 1; }
  pinned build/sbom sbom >"$log" 2>&1 ||
    { report "sbom: pip: $(tail -n 1 "$log")"; rm -rf build/sbom; return 1; }
  touch build/sbom/installed
}

mkdir -p build
if [[ ${1:-} == --registry ]]; then registry; exit; fi
if [[ ${1:-} == --page-tests ]]; then page_tests; exit; fi
peers || result=1
slurm || result=1
postgres || result=1
compose || result=1
environment venv || result=1
environment litellm || result=1
page_tests || result=1
npm_clients || result=1
if [[ ${1:-} == --chdb ]]; then
  chdb || result=1
  focus || result=1
  sbom || result=1
fi
exit "$result"
