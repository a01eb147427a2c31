#!/usr/bin/env bash
# Fetches what gpulens for arm64 is compiled and packed with on another architecture, into build/sysroot-arm64 and nowhere else:
#   apt.conf, lists/   apt's lists of arm64 packages, which tools/image.py uses, too
#   packages.tsv       name, version, architecture and source of each of these libraries
#   root/              the libraries of docs/dependencies.md for arm64, unpacked: they cannot be installed next to this machine's
# The cross compiler and qemu-user are Debian's: crossbuild-essential-arm64, qemu-user-static (./dev test --peers installs them).
# Run again with the same libraries it does nothing. What cannot be had leaves its reason in build/sysroot-arm64.why; exit 1 then.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
HOME_OF=$PWD/build
NAME=sysroot-arm64
LIBRARIES=(libssl-dev libyaml-cpp-dev libcli11-dev libdeflate-dev libzstd-dev libsnappy-dev libprotozero-dev libnghttp2-dev
  libsqlite3-dev libncurses-dev libjs-dygraphs libbpf-dev zlib1g-dev libgtest-dev libgmock-dev librapidcheck-dev)
SHARED='libyaml-cpp0.[0-9]+|libsnappy1v5' # links of development packages lead to these

# apt with folders of its own, so that the machine's lists and architectures stay as they are. Mirrors and keys are the machine's.
configuration() { # FOLDER
  cat <<TEXT
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$1/state";
Dir::State::status "$1/state/status";
Dir::Cache "$1/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
TEXT
}

sysroot() {
  local new=$HOME_OF/$NAME.new home=$HOME_OF/$NAME boost packages package
  [[ -e $home/made && $(<"$home/made") == "${LIBRARIES[*]}" ]] && rm -f "$home.why" && return
  command -v apt-get >/dev/null || { because $NAME "no apt-get here"; return; }
  command -v aarch64-linux-gnu-g++ >/dev/null || { because $NAME "no cross compiler here (Debian: crossbuild-essential-arm64)"; return; }
  report "$NAME: lists and libraries"
  rm -rf "$new" "$home" && mkdir -p "$new"/{state/lists/partial,cache/archives/partial,debs,root}
  touch "$new/state/status"
  configuration "$new" >"$new/apt.conf"
  export APT_CONFIG=$new/apt.conf
  apt-get update -qq >"$new/log" 2>&1 || { because $NAME "apt-get update of arm64 failed: $(grep -m 1 '^E: ' "$new/log")"; return; }
  boost=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 'libboost*-dev' 2>/dev/null | sed -n 's/^installed \(libboost[0-9.]*-dev\)$/\1/p' | sort -V | tail -n 1)
  mapfile -t packages < <(apt-cache depends "${LIBRARIES[@]}" | sed -n 's/^  Depends: //p' | grep -xE "$SHARED" | sort -u)
  (cd "$new/debs" && timeout 600 apt-get download -qq "${LIBRARIES[@]}" "${packages[@]}" "${boost:-libboost1.81-dev}") >"$new/log" 2>&1 ||
    { because $NAME "apt-get download of arm64 failed: $(grep -m 1 '^E: ' "$new/log")"; return; }
  # Of the packages in it, for the lists of contents; the compiler's own libraries have other names there.
  dpkg-query -W -f='${Package}\t${Version}\tarm64\t${source:Package}\n' 'libstdc++-*-dev-arm64-cross' 'libgcc-*-dev-arm64-cross' |
    sed 's/-arm64-cross\t/\t/' >"$new/packages.tsv"
  for package in "$new"/debs/*.deb; do
    dpkg-deb -W --showformat='${Package}\t${Version}\t${Architecture}\t${source:Package}\n' "$package" >>"$new/packages.tsv"
    dpkg -x "$package" "$new/root" || { because $NAME "cannot unpack $package"; return; }
  done
  rm -rf "$new/debs" "$new/log"
  configuration "$home" >"$new/apt.conf"
  echo "${LIBRARIES[*]}" >"$new/made" && mv "$new" "$home" && rm -f "$home.why"
}

mkdir -p "$HOME_OF"
sysroot
