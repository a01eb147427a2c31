# Messages of the prepare_*.sh. Sourced by them.
# shellcheck shell=bash

report() { echo "                $*"; }

# because NAME REASON…: why NAME cannot be had, left in $HOME_OF for the test that skips. Fails.
because() {
  local name=$1
  shift
  report "$name: $*"
  echo "$*" >"$HOME_OF/$name.why"
  rm -rf "${HOME_OF:?}/$name.new"
  return 1
}
