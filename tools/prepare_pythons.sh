#!/usr/bin/env bash
# Prepares Pythons that this machine lacks, for the wheels and their tests, in build/pythons/ and nowhere else:
#   3.13t        a free-threaded CPython with headers, compiled from Debian's source package: some ten minutes on two cores
#   debian-12, debian-13, debian-sid    roots with the C library and the Python of that release (3.11, 3.13, 3.14) and no
#                compiler, for python/tests/in_root.py
# usage: prepare_pythons.sh [NAME…]   without a name all of them
# Those of the machine need no preparing: python3.N on PATH and pyenv's (tools/pythons.py).
# Run again it does nothing. What cannot be had leaves its reason in build/pythons/NAME.why; exit 1 then.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
HOME_OF=$PWD/build/pythons

have() { [[ -e $HOME_OF/$1/whole ]] && rm -f "$HOME_OF/$1.why"; }

# FOLDER SUITE SOURCE-TYPE: lists of one release from the mirror that this machine's apt uses; sets APT to the client with them.
lists() {
  local folder=$1 suite=$2 kind=$3 mirror key=/usr/share/keyrings/debian-archive-keyring.gpg
  # shellcheck disable=SC2016  # variables of apt
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)
  [[ -n $mirror ]] || { echo "this machine's apt has no mirror of Debian"; return 1; }
  mkdir -p "$folder"/{state/lists/partial,cache/archives/partial}
  [[ -f $key ]] && key="[signed-by=$key] " || key=""
  echo "$kind $key$mirror $suite main" >"$folder/sources.list"
  APT=(apt-get -qq -o "Dir::State=$folder/state" -o "Dir::Cache=$folder/cache" -o "Dir::Etc::SourceList=$folder/sources.list"
    -o Dir::Etc::SourceParts=- -o Dir::State::Status=/dev/null -o APT::Sandbox::User=root)
  timeout 300 "${APT[@]}" update >"$folder/log" 2>&1 || { tail -n 1 "$folder/log"; return 1; }
}

# NAME SUITE PACKAGE…
root() {
  local name=$1 suite=$2 new=$HOME_OF/$1.new why package link APT
  shift 2
  have "$name" && return
  rm -rf "$new" && mkdir -p "$new"
  lists "$new/apt" "$suite" deb >"$HOME_OF/$name.log" || { because "$name" "$(<"$HOME_OF/$name.log")"; return; }
  timeout 300 "${APT[@]}" -y --download-only --no-install-recommends install "$@" >"$new/apt/log" 2>&1 ||
    { because "$name" "$(tail -n 1 "$new/apt/log")"; return; }
  for package in "$new"/apt/cache/archives/*.deb; do
    why=$(dpkg -x "$package" "$new" 2>&1) || { because "$name" "cannot unpack $package: $why"; return; }
  done
  for link in lib lib64 bin sbin; do [[ -e $new/$link || ! -d $new/usr/$link ]] || ln -s "usr/$link" "$new/$link"; done
  rm -rf "$new/apt" "$HOME_OF/$name.log"
  mkdir -p "$new"/{proc,dev,tmp,checkout}
  touch "$new/whole" && rm -rf "${HOME_OF:?}/$name" "$HOME_OF/$name.why" && mv "$new" "$HOME_OF/$name"
}

# VERSION SUITE: it is installed under the name that it keeps, so the stamp comes last.
freethreaded() {
  local version=$1 suite=$2 name=$1t new=$HOME_OF/$1t.new APT
  have "$name" && return
  command -v cc make >/dev/null || { because "$name" "no C compiler or no make here"; return; }
  rm -rf "$new" "${HOME_OF:?}/$name" && mkdir -p "$new"
  lists "$new/apt" "$suite" deb-src >"$HOME_OF/$name.log" || { because "$name" "$(<"$HOME_OF/$name.log")"; return; }
  (cd "$new" && timeout 300 "${APT[@]}" source --download-only "python$version") >"$HOME_OF/$name.log" 2>&1 &&
    mkdir -p "$new/source" && tar -xf "$new"/python*.orig.tar.[gx]z -C "$new/source" --strip-components=1 ||
    { because "$name" "$(tail -n 1 "$HOME_OF/$name.log")"; return; }
  report "$name: compiling CPython, some ten minutes"
  (cd "$new/source" && ./configure --disable-gil --disable-test-modules --with-ensurepip=install --prefix="$HOME_OF/$name" CFLAGS=-O1 &&
    nice make -j "$(nproc)" && make install) >"$HOME_OF/$name.log" 2>&1 ||
    { because "$name" "does not build: $(tail -n 1 "$HOME_OF/$name.log")"; return; }
  rm -rf "$new" "$HOME_OF/$name.log" "$HOME_OF/$name.why"
  touch "$HOME_OF/$name/whole"
}

result=0
mkdir -p "$HOME_OF"
(($#)) || set -- debian-12 debian-13 debian-sid 3.13t
for name in "$@"; do
  case $name in
  debian-12) root "$name" bookworm python3.11 dash coreutils || result=1 ;;
  debian-13) root "$name" trixie python3.13 dash coreutils || result=1 ;;
  debian-sid) root "$name" sid python3.14 dash coreutils || result=1 ;;
  3.13t) freethreaded 3.13 trixie || result=1 ;;
  *) report "no Python \"$name\"; they are debian-12 debian-13 debian-sid 3.13t" && result=1 ;;
  esac
done
exit "$result"
