# What the prepare_*.sh say. Sourced by them.
# shellcheck shell=bash

say() { echo "                $*"; }

# because NAME REASON…: why NAME cannot be had, left in $HOME_OF for the test that skips. Fails.
because() {
  local name=$1
  shift
  say "$name: $*"
  echo "$*" >"$HOME_OF/$name.why"
  rm -rf "${HOME_OF:?}/$name.new"
  return 1
}
