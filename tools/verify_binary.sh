#!/usr/bin/env bash
# Fails unless a program needs only the C library, 2.34 or older, starts, and is built hardened (tools/hardening.py). For another architecture CROSS is the prefix of its tools,
# EMULATOR what runs it.
set -euo pipefail
newest_allowed=2.34
program=$1

extra=$("${CROSS:-}objdump" -p "$program" | awk '$1 == "NEEDED" {print $2}' |
  grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux[a-z0-9-]*)\.so\.[0-9]+$' || true)
if [[ -n $extra ]]; then
  echo "package: $program needs ${extra//$'\n'/ }; link its static archive (cmake/Dependencies.cmake)" >&2
  exit 1
fi
newest=$("${CROSS:-}objdump" -T "$program" | grep -oE 'GLIBC_[0-9]+(\.[0-9]+)+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
if [[ $(printf '%s\n' "$newest" "$newest_allowed" | sort -V | tail -n 1) != "$newest_allowed" ]]; then
  echo "package: $program needs glibc $newest, $newest_allowed at most:" >&2
  "${CROSS:-}objdump" -T "$program" | grep "GLIBC_$newest" >&2
  exit 1
fi
${EMULATOR:-} "$program" version >/dev/null || { echo "package: $program version failed" >&2; exit 1; }
python3 "$(dirname "$(readlink -f "$0")")/hardening.py" "$program" >&2 || { echo "package: $program is not built as cmake/Flags.cmake has it" >&2; exit 1; }
echo "  $program: needs glibc $newest and nothing else; $(stat -c %s "$program" | awk '{printf "%.1f MB", $1 / 1e6}') stripped"
