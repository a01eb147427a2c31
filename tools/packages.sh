# Debian packages of each command, and their installation. Sourced by ./dev, which has
# step, run, die, INSTALL. docs/dependencies.md lists the purpose of each.
# shellcheck shell=bash disable=SC2034

BUILD_PACKAGES=(g++ cmake ninja-build mold ccache pkg-config libssl-dev libyaml-cpp-dev libcli11-dev
  libdeflate-dev libzstd-dev libsnappy-dev libprotozero-dev libnghttp2-dev libsqlite3-dev libncurses-dev libjs-dygraphs
  libbpf-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev python3 boost)
CLANG_PACKAGES=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 lld-19)
TEST_PACKAGES=(curl python3-venv python3-dev go chromium node tmux torch)
PACKAGE_PACKAGES=(rpm)
RELEASE_PACKAGES=(skopeo gpg gpg-agent)
ARM64_PACKAGES=(crossbuild-essential-arm64 qemu-user-static)
PEERS_PACKAGES=(debootstrap lintian rpmlint cpio gpg gpg-agent gdb mandoc groff-base zsh fish
  podman crun runc uidmap slirp4netns fuse-overlayfs)
DOCS_PACKAGES=(python3-venv doxygen)
PICTURES_PACKAGES=(chromium node tmux)
# Four are not names of packages: "boost" is the headers of 1.81 or later, whose package has another name in each release,
# "go" a toolchain from anywhere, "node" Node with npm, which others than Debian have in one package, and "torch" PyTorch where
# this release has it.
BOOSTS=(libboost1.81-dev libboost1.83-dev libboost-dev)

missing_of() {
  local have
  have=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  printf '%s\n' "$@" | grep -vxF -f <(echo "${have:-.}") || true
}

# The version that apt would install; empty where the lists have none. `apt-cache show` succeeds for a name that is
# only mentioned by other packages.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -vxF '(none)' || true; }

missing_boost() {
  local name version
  [[ $(missing_of "${BOOSTS[@]:0:2}" | wc -l) -lt 2 ]] && return
  for name in "${BOOSTS[@]}"; do
    version=$(candidate "$name")
    if [[ -n $version ]] && dpkg --compare-versions "$version" ge 1.81; then echo "$name"; return; fi
  done
  # The lists are empty or old: the name that this release has.
  if grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then echo "${BOOSTS[0]}"; else echo "${BOOSTS[1]}"; fi
}

# Go 1.21 or later fetches the version that a program requires. An older one is of no use, and tests skip without Go.
missing_go() {
  local version
  [[ -x $(command -v go) || -x /usr/local/go/bin/go || -x /usr/lib/go/bin/go ]] && return
  version=$(candidate golang-go)
  if [[ -n $version ]] && dpkg --compare-versions "$version" ge 2:1.21~; then echo golang-go; fi
}

missing_node() {
  command -v node >/dev/null && command -v npm >/dev/null && return
  command -v node >/dev/null || echo nodejs
  [[ $(candidate nodejs) == *nodesource* ]] || echo npm
}

missing_torch() {
  if [[ -n $(missing_of python3-torch) && -n $(candidate python3-torch) ]]; then echo python3-torch; fi
}

missing_now() {
  local name wanted=()
  for name in "$@"; do
    case $name in
    boost) missing_boost ;;
    go) missing_go ;;
    node) missing_node ;;
    torch) missing_torch ;;
    *) wanted+=("$name") ;;
    esac
  done
  missing_of "${wanted[@]}"
}

lists_are_fresh() {
  find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | grep -q . &&
    find /var/lib/apt/lists -maxdepth 1 -name partial -mtime -7 | grep -q .
}

packages() { timed packages install_packages "$@"; }

install_packages() {
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
    command -v sudo >/dev/null || die "cannot install: not root, and sudo is not here. An administrator can, with

    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}
"
    as_root=(sudo)
  fi
  if ! lists_are_fresh; then
    run "${as_root[@]}" apt-get update -qq || echo "                the package lists could not be refreshed; trying with the old ones"
    mapfile -t missing < <(missing_now "$@") # fresh lists may offer another Boost
  fi
  echo "                ${as_root[*]} apt-get install -y --no-install-recommends ${missing[*]}"
  follow "packages_progress ${missing[*]}" logged build/apt.log "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}" ||
    { cat build/apt.log >&2; die "apt-get failed (above). Try:  apt-get update  and again, or install by hand: ${missing[*]}"; }
  echo "                done, $(took "$start")"
}
