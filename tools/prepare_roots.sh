#!/usr/bin/env bash
# Makes bare systems in build/roots/SUITE for tests/packages/test_bare_roots.py: Debian 12 and 13, Ubuntu 22.04 and 24.04, each with
# the packages that its distribution calls required, 200 to 290 MB, and Debian 12 with systemd once more. Needs root and debootstrap.
# Mirrors are debootstrap's own; GPULENS_DEBIAN_MIRROR and GPULENS_UBUNTU_MIRROR name others. Run again it does nothing. What
# cannot be had leaves its reason in build/roots/SUITE.why, which the test shows when it skips; exit 1 then.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
HOME_OF=$PWD/build/roots
SCRIPTS=/usr/share/debootstrap/scripts

# The mirror that debootstrap would take for Ubuntu on an Ubuntu.
ubuntu_mirror() {
  (
    default_mirror() { echo "$1"; exit; }
    # shellcheck disable=SC2034
    SUITE=jammy ARCH=$(dpkg --print-architecture)
    case $ARCH in amd64 | i386) ;; *) exit ;; esac
    # shellcheck source=/dev/null
    source "$SCRIPTS/jammy" 2>/dev/null
  )
}

root() { # SUITE MIRROR SCRIPT
  local suite=$1 mirror=$2 script=$3
  [[ -e $HOME_OF/$suite/made ]] && rm -f "$HOME_OF/$suite.why" && return
  command -v debootstrap >/dev/null || { because "$suite" "no debootstrap here"; return; }
  ((EUID == 0)) || { because "$suite" "debootstrap needs root"; return; }
  report "$suite: debootstrap"
  rm -rf "${HOME_OF:?}/$suite" "$HOME_OF/$suite.new"
  if ! timeout 900 debootstrap --variant=minbase "$suite" "$HOME_OF/$suite.new" $mirror $script >"$HOME_OF/$suite.log" 2>&1; then
    because "$suite" "debootstrap failed: $(grep -m 1 '^E: ' "$HOME_OF/$suite.log" || tail -n 1 "$HOME_OF/$suite.log")"
    return
  fi
  rm -rf "$HOME_OF/$suite.new"/var/cache/apt/archives/*.deb
  touch "$HOME_OF/$suite.new/made"
  mv "$HOME_OF/$suite.new" "$HOME_OF/$suite" && rm -f "$HOME_OF/$suite.why"
}

# Debian 12 with systemd, for tests/packages/test_systemd.py.
with_systemd() {
  local suite=bookworm-systemd
  [[ -e $HOME_OF/$suite/made ]] && rm -f "$HOME_OF/$suite.why" && return
  [[ -e $HOME_OF/bookworm/made ]] || { because "$suite" "no bookworm: $(cat "$HOME_OF/bookworm.why" 2>/dev/null)"; return; }
  report "$suite: systemd"
  rm -rf "${HOME_OF:?}/$suite" "$HOME_OF/$suite.new"
  cp -a "$HOME_OF/bookworm" "$HOME_OF/$suite.new" && cp /etc/resolv.conf "$HOME_OF/$suite.new/etc/" && rm "$HOME_OF/$suite.new/made"
  if ! timeout 600 chroot "$HOME_OF/$suite.new" sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends systemd systemd-sysv dbus libnss-systemd curl && apt-get clean' >"$HOME_OF/$suite.log" 2>&1; then
    because "$suite" "apt-get failed: $(grep -m 1 '^E: ' "$HOME_OF/$suite.log" || tail -n 1 "$HOME_OF/$suite.log")"
    return
  fi
  : >"$HOME_OF/$suite.new/etc/machine-id"
  rm -f "$HOME_OF/$suite.new/etc/systemd/system/getty.target.wants"/* "$HOME_OF/$suite.new"/root/*.deb
  touch "$HOME_OF/$suite.new/made"
  mv "$HOME_OF/$suite.new" "$HOME_OF/$suite" && rm -f "$HOME_OF/$suite.why"
}

mkdir -p "$HOME_OF"
result=0
ubuntu=${GPULENS_UBUNTU_MIRROR:-$(ubuntu_mirror)}
# A debootstrap that is older than a suite has no script of its name; that of jammy serves all Ubuntus, sid's all Debians.
for suite in bookworm trixie; do root "$suite" "${GPULENS_DEBIAN_MIRROR:-}" "${GPULENS_DEBIAN_MIRROR:+sid}" || result=1; done
for suite in jammy noble; do root "$suite" "$ubuntu" jammy || result=1; done
with_systemd || result=1
exit "$result"
