# Which Debian packages a command needs, and how they are installed. Sourced by ./dev, which has
# step, run, took, die, INSTALL. docs/dependencies.md says what each is for.
# shellcheck shell=bash disable=SC2034

BUILD_PACKAGES=(g++ cmake ninja-build mold ccache pkg-config libssl-dev libyaml-cpp-dev libcli11-dev
  libdeflate-dev libzstd-dev libsnappy-dev libprotozero-dev libnghttp2-dev zlib1g-dev libsqlite3-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev python3)
CLANG_PACKAGES=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 lld-19)
TEST_PACKAGES=(curl python3-venv python3-dev go) # go is no package, but see missing_go

missing_of() {
  local have
  have=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  printf '%s\n' "$@" | grep -vxF -f <(echo "${have:-.}") || true
}

# Headers only, 1.81 or later; the name differs between Debian 12 and Ubuntu 24.04.
missing_boost() {
  [[ $(missing_of libboost1.81-dev libboost1.83-dev | wc -l) -lt 2 ]] && return
  if apt-cache show libboost1.81-dev >/dev/null 2>&1; then echo libboost1.81-dev; else echo libboost1.83-dev; fi
}

# Go 1.21 or later fetches the one that a program asks for. One that is older is of no use, and tests skip without.
missing_go() {
  local candidate
  [[ -x $(command -v go) || -x /usr/local/go/bin/go || -x /usr/lib/go/bin/go ]] && return
  candidate=$(apt-cache policy golang-go 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [[ -n $candidate ]] && dpkg --compare-versions "$candidate" ge 2:1.21~; then echo golang-go; fi
}

missing_now() {
  local name wanted=() go=false
  for name in "$@"; do if [[ $name == go ]]; then go=true; else wanted+=("$name"); fi; done
  missing_of "${wanted[@]}"
  missing_boost
  ! $go || missing_go
}

refresh_lists() {
  find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | grep -q . &&
    find /var/lib/apt/lists -maxdepth 1 -name partial -mtime -7 | grep -q . && return
  run "$@" apt-get update -qq || echo "                the package lists could not be refreshed; trying with the old ones"
}

packages() {
  local missing as_root=() start=$SECONDS
  if ! command -v dpkg-query >/dev/null; then
    step packages "not Debian: nothing is installed; docs/dependencies.md lists what is needed"
    return
  fi
  mapfile -t missing < <(missing_now "$@")
  if ((${#missing[@]} == 0)); then step packages "all here"; return; fi
  step packages "${#missing[@]} missing: ${missing[*]:0:4}$( ((${#missing[@]} > 4)) && echo " …") (all: docs/dependencies.md)"
  if ! $INSTALL; then echo "                not installed: --no-install. Going on without: ${missing[*]}"; return; fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "cannot install: not root, and sudo is not here. Ask an administrator:  \
apt-get install -y --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  refresh_lists "${as_root[@]}"
  mapfile -t missing < <(missing_now "$@") # fresh lists may offer another Boost
  echo "                ${as_root[*]} apt-get install -y --no-install-recommends ${missing[*]}"
  run "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null ||
    die "apt-get failed (above). Try:  apt-get update  and again, or install by hand: ${missing[*]}"
  echo "                done, $(took "$start")"
}
