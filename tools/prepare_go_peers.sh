#!/usr/bin/env bash
# Builds programs of others that are written in Go, for the end-to-end tests, into build/go_peers/ and nowhere else:
#   collector          the OpenTelemetry Collector with few components: tests/peers/collector
#   victoria-metrics   VictoriaMetrics, one node
#   podresources       a kubelet's PodResources service, with Kubernetes' own messages
#   helm, kubeconform, kustomize, kube-schemas    render and validate the objects of deploy/helm and deploy/kustomize
#   vmalert, telemetrygen, prometheus3    the heavy ones: what evaluates rules for VictoriaMetrics; a client of OTLP in Go; a Prometheus that
#                      knows OTLP and remote write 2.0
#   vmagent            heavy, too: VictoriaMetrics' agent, to compare gateways with
#   keda-client        a client of external scalers, with the messages of KEDA itself; on request, too
#   kube-apiserver, etcd    heavy, too: take the objects of deploy/ as a cluster does
# usage: prepare_go_peers.sh [NAME… | --all]   without a name those that are not heavy
# Each is what its folder in tests/peers/ describes: go.mod, go.sum, and its own program or package.txt, which names one of a module;
# versions.txt sets the variables that a release sets.
# Built programs are kept in GPULENS_CACHE (~/.cache/gpulens), so that another checkout copies it.
# Modules come through the Go toolchain's own settings. Run again it does nothing. What cannot be had leaves its reason in
# build/go_peers/NAME.why, which the test shows when it skips; exit 1 then.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
HOME_OF=$PWD/build/go_peers
ALL=(collector victoria-metrics podresources helm kubeconform kustomize kube-schemas vmalert telemetrygen prometheus3 vmagent keda-client kube-apiserver etcd)
LIGHT=(collector victoria-metrics podresources helm kubeconform kustomize kube-schemas)
KEPT=${GPULENS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpulens}/go_peers
OLDEST=21 # Go 1.21 is the first that fetches a newer one by itself

find_go() {
  local place
  for place in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go/bin/go; do
    [[ -x $place ]] && echo "$place" && return
  done
  return 1
}

# Sets GO, or WHY there is none that will do.
go_toolchain() {
  local version
  WHY="no Go toolchain"
  GO=$(find_go) || return
  version=$("$GO" env GOVERSION 2>/dev/null) # like go1.26.8
  WHY="no Go toolchain that is new enough: $GO is ${version:-very old}, go1.$OLDEST is needed"
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= OLDEST))
}

# The stamp is the sources of a peer: changed ones are built again.
stamp() { (cd "tests/peers/$1" && cat -- *); }

# The program in KEPT that was built from the current sources.
kept() { echo "$KEPT/$1-$(stamp "$1" | sha256sum | cut -c1-16)-$(uname -m)"; }

peer() { # NAME
  local name=$1 new=$HOME_OF/$1.new package=. kept flags="-s -w"
  cmp -s <(stamp "$name") "$HOME_OF/$name/built_from.txt" && rm -f "$HOME_OF/$name.why" && return
  kept=$(kept "$name")
  if [[ -x $kept ]]; then
    rm -rf "${HOME_OF:?}/$name" "$HOME_OF/$name.why" && mkdir -p "$HOME_OF/$name" && cp "$kept" "$HOME_OF/$name/$name" &&
      stamp "$name" >"$HOME_OF/$name/built_from.txt" && return
  fi
  go_toolchain || { because "$name" "$WHY"; return; }
  report "$name: compiling"
  rm -rf "$new" && mkdir -p "$new" && cp -r "tests/peers/$name" "$new/source"
  [[ ! -f $new/source/package.txt ]] || package=$(<"$new/source/package.txt")
  [[ ! -f $new/source/versions.txt ]] || flags+=$(sed 's/^/ -X /' "$new/source/versions.txt" | tr -d '\n')
  (cd "$new/source" && CGO_ENABLED=0 GOWORK=off timeout 1800 nice "$GO" build -mod=readonly -trimpath \
    -tags remove_all_sd -ldflags="$flags" -o "$new/$name" "$package") >"$new/log" 2>&1 ||
    { because "$name" "does not build: $(grep -v '^go: downloading' "$new/log" | tail -n 1)"; return; }
  mkdir -p "$KEPT" && cp "$new/$name" "$kept.new.$$" && mv "$kept.new.$$" "$kept"
  stamp "$name" >"$new/built_from.txt" && rm -rf "$new/source" "$new/log" "${HOME_OF:?}/$name" "$HOME_OF/$name.why" &&
    mv "$new" "$HOME_OF/$name"
}

# Not a program: schemas of Kubernetes' objects, which tools/kube_schemas.py makes out of Go modules.
schemas() {
  local name=kube-schemas kept
  cmp -s tools/kube_schemas.py "$HOME_OF/$name/made_by.py" && rm -f "$HOME_OF/$name.why" && return
  kept=$KEPT/$name-$(sha256sum <tools/kube_schemas.py | cut -c1-16)
  if [[ ! -d $kept ]]; then
    go_toolchain || { because "$name" "$WHY"; return; }
    report "$name: reading modules"
    mkdir -p "$KEPT"
    PATH=$(dirname "$GO"):$PATH nice tools/venv_python.sh tools/kube_schemas.py "$kept" >"$HOME_OF/$name.log" 2>&1 ||
      { because "$name" "$(tail -n 1 "$HOME_OF/$name.log")"; return; }
  fi
  rm -rf "${HOME_OF:?}/$name" "$HOME_OF/$name.why" "$HOME_OF/$name.log" && cp -r "$kept" "$HOME_OF/$name"
}

result=0
[[ ${1:-} != --all ]] || set -- "${ALL[@]}"
(($#)) || set -- "${LIGHT[@]}"
mkdir -p "$HOME_OF"
for name in "$@"; do
  if [[ $name == kube-schemas ]]; then
    schemas || result=1
  elif [[ " ${ALL[*]} " == *" $name "* ]]; then
    peer "$name" || result=1
  else
    report "no peer \"$name\"; they are ${ALL[*]}"
    result=1
  fi
done
exit "$result"
