#!/usr/bin/env bash
# The documentation site: docs/ by mkdocs-material, the reference of the C++ SDK by Doxygen, that of the Python package by
# mkdocstrings → build/docs. Nothing in it is loaded from elsewhere. mkdocs runs in build/docs_venv, whose packages are
# tools/docs/requirements.txt.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
venv=build/docs_venv log=build/docs_venv.log

if ! cmp -s tools/docs/requirements.txt $venv/installed.txt; then
  rm -rf $venv
  mkdir -p build
  { python3 -m venv $venv && timeout 300 $venv/bin/pip install --quiet --disable-pip-version-check -r tools/docs/requirements.txt; } >$log 2>&1 ||
    { echo "docs: the packages of tools/docs/requirements.txt cannot be had: $(tail -n 1 $log)" >&2; exit 1; }
  cp tools/docs/requirements.txt $venv/installed.txt
fi
command -v doxygen >/dev/null || { echo "docs: doxygen is not here; ./dev docs installs it" >&2; exit 1; }

rm -rf build/docs
NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 $venv/bin/mkdocs build --quiet --strict -f tools/docs/mkdocs.yml
doxygen tools/docs/Doxyfile
[[ -f build/docs/reference/cpp/index.html ]]
echo "build/docs/index.html"
