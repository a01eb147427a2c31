#!/usr/bin/env bash
# Prints the processor seconds that one compile of tools/reference_compile.cc takes here: the median of TIMES (1).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
TIMEFORMAT='%U %S'
for ((i = 0; i < ${1:-1}; ++i)); do
  { time g++ -std=c++20 -O2 -g1 -c -o /dev/null reference_compile.cc; } 2>&1 | awk '{ print $1 + $2 }'
done | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
