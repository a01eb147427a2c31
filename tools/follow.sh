# How far a long command is, and what a stage took. Sourced by ./dev and by prepare_*.sh.
# shellcheck shell=bash

BEAT_SECONDS=${GPULENS_BEAT_SECONDS:-30}
exec 3>&1 # where progress is printed while a command's own output goes to a file

duration() { (($1 < 60)) && echo "$1 s" || echo "$(($1 / 60)) m $(($1 % 60)) s"; }
took() { duration $((SECONDS - $1)); }

# follow DESCRIBE COMMAND…: runs the command and prints, each half minute, the time and what DESCRIBE prints. DESCRIBE is
# a command; the seconds that have passed are its last argument.
follow() {
  local describe=$1 start=$SECONDS parent=$BASHPID result=0 beat
  shift
  (
    nap=""
    trap 'kill "$nap" 2>/dev/null; exit 0' TERM
    while kill -0 "$parent" 2>/dev/null; do
      sleep "$BEAT_SECONDS" >/dev/null 2>&1 &
      nap=$!
      wait "$nap"
      # shellcheck disable=SC2086
      echo "                $(took "$start"): $($describe $((SECONDS - start)) 2>/dev/null)" >&3
    done
  ) &
  beat=$!
  "$@" || result=$?
  kill "$beat" 2>/dev/null
  wait "$beat" 2>/dev/null || true
  return "$result"
}

# logged LOG COMMAND…: the command's output goes to LOG.
logged() {
  local log=$1
  shift
  if $DRY_RUN; then run "$@"; return; fi
  mkdir -p "${log%/*}"
  "$@" >"$log" 2>&1
}

# left DONE ALL SECONDS: the time that is left when all steps are alike.
left() {
  if (($1 < 1 || $3 < 5)); then echo "$1 of $2 done"; else echo "$1 of $2 done, $(duration $(($3 * ($2 - $1) / $1))) left"; fi
}

# Progress of ninja, whose output goes to LOG.
ninja_progress() { # LOG SECONDS
  local line
  line=$(grep -a '^\[[0-9]*/[0-9]*\]' "$1" | tail -n 1)
  [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*)$ ]] || { echo "starting"; return; }
  echo "$(left "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$2"), last ${BASH_REMATCH[3]##* }"
}

# Progress of ctest, whose output goes to LOG: by the seconds that its tests take (tests/costs.tsv), not by their number.
ctest_progress() { # LOG SECONDS
  awk -v passed="$2" '
    function span(s) { return s < 60 ? s " s" : int(s / 60) " m " s % 60 " s" }
    FILENAME ~ /costs.tsv$/ { cost[$1] = $2 + 0.2; next }
    FILENAME ~ /names.txt$/ { all += $1 in cost ? cost[$1] : 0.5; count++; next }
    $1 == "Start" { running[$3] = 1 }
    $2 == "Test" && $1 ~ /\// { name = $4; delete running[name]; ended++; done += name in cost ? cost[name] : 0.5 }
    END {
      for (name in running) names = names " " name
      printf "%d of %d tests done", ended, count
      if (done > all / 12) printf ", %s left", span(int(passed * (all - done) / done))
      if (names != "") printf ", running:%s", names
      print ""
    }' tests/costs.tsv "${1%/*}/names.txt" "$1"
}

# How many of PACKAGES are installed.
packages_progress() { # PACKAGES… SECONDS
  local all=("${@:1:$#-1}") missing
  missing=$(missing_of "${all[@]}" | wc -l)
  left $((${#all[@]} - missing)) "${#all[@]}" "${!#}"
}

# The last line of what a command writes to LOG.
log_progress() { # LOG SECONDS
  local line
  line=$(tail -qn 1 "$1" 2>/dev/null | tr -d '\r')
  echo "${line:0:100}"
}

# --- what stages took ------------------------------------------------------------------------------

# Sets USED to the processor seconds of all processes that this shell has started and waited for. `times` reports those of its
# own shell alone, so its output goes through a file.
children_seconds() {
  times >"$STAGES.times"
  USED=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } printf "%.1f", sum }' "$STAGES.times")
}

# timed NAME COMMAND…: runs the command and adds a row to $STAGES: name, seconds, processor seconds, exit code.
timed() {
  local name=$1 start=$SECONDS before result=0
  shift
  if $DRY_RUN; then "$@"; return; fi
  mkdir -p "${STAGES%/*}"
  children_seconds
  before=$USED
  "$@" || result=$?
  children_seconds
  printf '%s\t%d\t%s\t%d\n' "$name" $((SECONDS - start)) \
    "$(awk -v a="$before" -v b="$USED" 'BEGIN { printf "%.1f", b - a }')" "$result" >>"$STAGES"
  return "$result"
}
