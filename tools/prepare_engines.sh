#!/usr/bin/env bash
# Fetches real LLM serving engines for the tests of tests/engines/, into build/engines/ and nowhere else:
#   triton     Triton Inference Server with its Python backend, out of a wheel
#   mooncake   the master of the Mooncake store and its client, out of a wheel
#   litellm, dynamo, llama_cpp    the heavy ones: 0.4 GB and 0.7 GB of Python, ten minutes of compiling
# usage: prepare_engines.sh [NAME… | --all]   without a name the first two
# Run again it does nothing. What cannot be had leaves its reason in build/engines/NAME.why, which the test shows
# when it skips; exit 1 then.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tools/preparing.sh
source tools/preparing.sh
HOME_OF=$PWD/build/engines
TRITON="nvidia-pytriton==0.7.0"
TRITON_NUMPY="numpy==1.26.4" # the backend was built before numpy 2, whose arrays it reads as empty
MOONCAKE="mooncake-transfer-engine-non-cuda==0.3.13.post1"
LITELLM="litellm[proxy]==1.106.2"
DYNAMO=(ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1)
# Imports of its frontend and mocker: the full requirements of the package include a placeholder that cannot be installed.
DYNAMO_NEEDS=(uvloop typing_extensions msgspec prometheus-client pyzmq tqdm zstandard aiohttp transformers pyyaml
  "kubernetes<33" redis fastapi)
LLAMA_CPP="llama-cpp-python==0.3.36" # its source package holds llama.cpp
MOONCAKE_LIBRARIES=(libibverbs1 librdmacm1 libnuma1 libnl-3-200 libnl-route-3-200)

# The stamp is the requested version: another one is fetched again.
have() { [[ -f $HOME_OF/$1/installed.txt && $(<"$HOME_OF/$1/installed.txt") == "$2" ]] && rm -f "$HOME_OF/$1.why"; }
done_with() {
  echo "$2" >"$HOME_OF/$1.new/installed.txt" && rm -rf "${HOME_OF:?}/$1" "$HOME_OF/$1.why" &&
    mv "$HOME_OF/$1.new" "$HOME_OF/$1"
}
pip() {
  local python=python3
  [[ -x build/venv/bin/pip ]] && python=build/venv/bin/python3
  timeout 300 "$python" -m pip --disable-pip-version-check --retries 1 --timeout 30 "$@"
}
# WHEEL-REQUIREMENT FOLDER [PIP OPTION…]: fetched without what it depends on, unpacked, the archive removed.
wheel() {
  local requirement=$1 folder=$2 archive
  shift 2
  mkdir -p "$folder"
  pip download --quiet --no-deps --only-binary=:all: --dest "$folder" "$@" "$requirement" >"$folder/log" 2>&1 ||
    { tail -n 1 "$folder/log"; return 1; }
  archive=$(find "$folder" -maxdepth 1 -name '*.whl' | head -n 1)
  python3 -m zipfile -e "$archive" "$folder" >"$folder/log" 2>&1 || { tail -n 1 "$folder/log"; return 1; }
  rm -f "$archive" "$folder/log"
}
# FOLDER PACKAGE…: Debian's packages unpacked, not installed.
debian() {
  local folder=$1 package
  shift
  mkdir -p "$folder"
  command -v apt-get >/dev/null || { echo "no apt-get here"; return 1; }
  (cd "$folder" && timeout 300 apt-get download -qq "$@") >"$folder/log" 2>&1 ||
    { ((EUID == 0)) && apt-get update -qq && (cd "$folder" && timeout 300 apt-get download -qq "$@"); } >"$folder/log" 2>&1 ||
    { tail -n 1 "$folder/log"; return 1; }
  for package in "$folder"/*.deb; do
    dpkg -x "$package" "$folder" || { echo "cannot unpack $package"; return 1; }
  done
  rm -f "$folder"/*.deb "$folder/log"
}
# PATHS… → what the loader does not find for a program, with LIBRARIES as the search path.
not_found() { LD_LIBRARY_PATH=$LIBRARIES ldd "$@" 2>/dev/null | sed -n 's/^\t*\(.*\) => not found/\1/p' | sort -u | tr '\n' ' '; }

triton() {
  local new=$HOME_OF/triton.new version backend stub missing why LIBRARIES
  version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    { because triton "its Python backend needs the system's python3"; return; }
  have triton "$TRITON $TRITON_NUMPY python$version" && return
  [[ $(uname -m) == x86_64 ]] || { because triton "its wheel is for x86-64 alone"; return; }
  rm -rf "$new"
  why=$(wheel "$TRITON" "$new") || { because triton "$TRITON: $why"; return; }
  backend=$new/pytriton/tritonserver/backends/python
  stub=$new/pytriton/tritonserver/python_backend_stubs/$version/triton_python_backend_stub
  [[ -f $stub ]] || { because triton "its Python backend has nothing for Python $version"; return; }
  mv "$stub" "$backend/" && chmod +x "$backend/triton_python_backend_stub" "$new/pytriton/tritonserver/bin/tritonserver"
  why=$(wheel "$TRITON_NUMPY" "$backend" --python-version "$version") || { because triton "$TRITON_NUMPY: $why"; return; }
  why=$(debian "$new/debian" "libpython$version") || { because triton "libpython$version: $why"; return; }
  LIBRARIES=$new/nvidia_pytriton.libs:$(find "$new/debian" -name 'libpython*.so.1.0' -printf '%h' -quit)
  missing=$(not_found "$backend/triton_python_backend_stub")$(not_found "$new/pytriton/tritonserver/bin/tritonserver")
  [[ -z $missing ]] || { because triton "libraries that are not here: $missing"; return; }
  rm -rf "$new/pytriton/tritonserver/python_backend_stubs"
  done_with triton "$TRITON $TRITON_NUMPY python$version"
}

mooncake() {
  local new=$HOME_OF/mooncake.new missing why LIBRARIES
  have mooncake "$MOONCAKE" && return
  rm -rf "$new"
  why=$(wheel "$MOONCAKE" "$new") || { because mooncake "$MOONCAKE: $why"; return; }
  chmod +x "$new/mooncake/mooncake_master"
  why=$(debian "$new/debian" "${MOONCAKE_LIBRARIES[@]}") || { because mooncake "${MOONCAKE_LIBRARIES[*]}: $why"; return; }
  LIBRARIES=$(find "$new/debian" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
  missing=$(not_found "$new/mooncake/mooncake_master")$(not_found "$new/mooncake/store.so")
  [[ -z $missing ]] || { because mooncake "libraries that are not here: $missing"; return; }
  done_with mooncake "$MOONCAKE"
}

# FOLDER REQUIREMENT…: a Python environment of its own. It cannot be moved, so the stamp comes last.
environment() {
  local folder=$1
  shift
  [[ -x $folder/bin/python3 ]] || python3 -m venv "$folder" >"$folder.log" 2>&1 || { tail -n 1 "$folder.log"; return 1; }
  timeout 900 "$folder/bin/python3" -m pip --disable-pip-version-check --retries 1 --timeout 30 install --quiet "$@" \
    >"$folder.log" 2>&1 || { tail -n 1 "$folder.log"; return 1; }
  rm -f "$folder.log"
}

litellm() {
  local why
  have litellm "$LITELLM" && return
  rm -rf "$HOME_OF/litellm"
  why=$(environment "$HOME_OF/litellm" "$LITELLM" prometheus_client) || { because litellm "$LITELLM: $why"; return; }
  echo "$LITELLM" >"$HOME_OF/litellm/installed.txt"
}

dynamo() {
  local why
  have dynamo "${DYNAMO[*]}" && return
  rm -rf "$HOME_OF/dynamo"
  why=$(environment "$HOME_OF/dynamo" --no-deps "${DYNAMO[@]}" && environment "$HOME_OF/dynamo" "${DYNAMO_NEEDS[@]}") ||
    { because dynamo "${DYNAMO[*]}: $why"; return; }
  echo "${DYNAMO[*]}" >"$HOME_OF/dynamo/installed.txt"
}

llama_cpp() {
  local new=$HOME_OF/llama_cpp.new why source
  have llama_cpp "$LLAMA_CPP" && return
  rm -rf "$new" && mkdir -p "$new"
  pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$new" "$LLAMA_CPP" >"$new/log" 2>&1 ||
    { because llama_cpp "$LLAMA_CPP: $(tail -n 1 "$new/log")"; return; }
  tar -xf "$new"/llama_cpp_python-*.tar.gz -C "$new" || { because llama_cpp "cannot unpack its source"; return; }
  source=$(find "$new" -maxdepth 3 -path '*/vendor/llama.cpp')
  report "llama_cpp: compiling llama-server, some ten minutes"
  { cmake -S "$source" -B "$new/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
      -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
      -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_APP=OFF && nice ninja -C "$new/build" llama-server; } >"$new/log" 2>&1 ||
    { because llama_cpp "does not build: $(tail -n 1 "$new/log")"; return; }
  find "$new/build" -type f -name llama-server -exec mv {} "$new/llama-server" \; && rm -rf "$new/build" "$new"/llama_cpp_python-*
  done_with llama_cpp "$LLAMA_CPP"
}

result=0
[[ ${1:-} != --all ]] || set -- triton mooncake litellm dynamo llama_cpp
mkdir -p "$HOME_OF"
(($#)) || set -- triton mooncake
for name in "$@"; do
  case $name in
  triton | mooncake | litellm | dynamo | llama_cpp) "$name" || result=1 ;;
  *) report "no engine \"$name\"; they are triton mooncake litellm dynamo llama_cpp" && result=1 ;;
  esac
done
exit "$result"
