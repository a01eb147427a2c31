# Texts of ./dev COMMAND --help. Sourced by ./dev.
# shellcheck shell=bash disable=SC2154

help_of() {
  case $1 in
  run) echo "./dev run [--demo] [-- AGENT OPTIONS]
Builds the release preset and becomes build/gpulens agent, so that Ctrl-C reaches it. --demo simulates 8 GPUs and what runs on them.
  ./dev run -- --http-listen 127.0.0.1:9191" ;;
  test) echo "./dev test [--engines | --peers | --pythons | --torch | --soak [MINUTES]] [NAME…]
Builds the release preset and runs every test, or those whose ctest name contains a NAME. Fetches Debian's
prometheus and node exporter into build/peers and Python packages into build/venv, and builds the OpenTelemetry
Collector and VictoriaMetrics in build/go_peers, where there is Go, for the end-to-end tests; what cannot be had is
reported, and its tests skip with the reason.
With --engines it runs those of real serving engines alone, or of the engines NAME: Triton and Mooncake, as
everywhere, and those that take long to fetch or to build: llama.cpp, Dynamo, LiteLLM.
With --peers it runs those of other programs that take long to build or to fetch: a Prometheus that knows OTLP and remote
write 2.0, telemetrygen, and ClickHouse's engine (chdb, 1 GB in build/chdb); and those of the packages, which lintian reads and which
are installed in bare systems (build/roots, 1 GB; needs root), those of arm64 among them, which is compiled and run under qemu-user; the
image under rootless podman; the rehearsal of a release.
With --soak it runs the kill test of docs/reliability.md for MINUTES (10), with two kills a minute; GPULENS_SOAK_SEED
repeats the plan of an earlier run.
With --pythons it installs the Python package's wheels without a compiler, and runs its tests, with each Python 3.9 to 3.14 that is
on PATH or pyenv's, with a free-threaded one that it compiles, and in roots of Debian 12, 13 and unstable, all in build/pythons.
  ./dev test base wire
  ./dev test --engines litellm
  ./dev test --peers" ;;
  build) echo "./dev build [PRESET]
PRESET is one of: $PRESETS (default release). Leaves build/gpulens, a link to the program just built.
asan is clang with the address and undefined behaviour sanitizers, coverage and the fuzzers; tsan is clang's
thread sanitizer; fuzz shares the tree of asan; tidy only writes compile_commands.json. arm64 is release with Debian's cross compiler,
of what is packed and tested alone: tools/package.sh dist arm64 makes its packages." ;;
  bench) echo "./dev bench [NAME…]
Runs build/release/*_bench (or those whose name contains a NAME), then tools/bench.py where there is one.
Each result is also left in build/bench/NAME.json. Close other programs first: the numbers are of this machine." ;;
  check) echo "./dev check [--full] [STAGE…]
Looks at what changed since the last full check that is recorded in tests/full_checks.tsv, and at what is made of it; with --full,
or where no row there can be used, at everything. It reports which, and prints the row to record after a full check.
Stages: $(check_stages | tr '\n' ' ')
  format      clang-format 19 would change nothing       layers    includes only point to a lower floor
  tidy        sizes, banned calls and the like           clang-tidy  its short list, on src/
  asan        unit tests, and the end-to-end tests with the label sanitize, with address and undefined behaviour sanitizers
  coverage    --full: lines of src/ that these tests ran; at least COVERAGE_FLOOR=$COVERAGE_FLOOR percent
  fuzz        each fuzzer tries a number of inputs, the same everywhere     tsan      the unit tests with the thread sanitizer
  benches     the benchmarks compile" ;;
  fuzz) echo "./dev fuzz TARGET [SECONDS]
Builds one fuzzer and runs it for SECONDS (default 60) from the seeds next to it. New inputs stay in
build/fuzz/TARGET; an input that fails is left there, too. Without TARGET: lists them." ;;
  package) echo "./dev package [program | image | wheel] [--sign KEYFILE]
program: builds the program and the SDK's archive, without tests, and leaves in dist/ the packages gpulens and gpulens-dev and the debug
symbols, each as .deb, .rpm and tar.gz, after a look at the program in them: it may need glibc 2.34 or older and no other library.
image: leaves these and the OCI image dist/gpulens-VERSION-linux-ARCH.oci.tar, made without a daemon of the .deb and files of Debian packages.
wheel: leaves the Python package's wheels and its sdist, dist/gpulens-VERSION*.whl and dist/gpulens-VERSION.tar.gz. The wheels, too, need
glibc 2.34 or older and no other library. They are made with the Pythons that are on PATH, pyenv's or in build/pythons.
Without a word it makes all. Then it writes what is inside each file in dist/ (gpulens-VERSION.cdx.json, gpulens-VERSION.spdx.json), and
SHA256SUMS. With --sign it signs the .rpm files and SHA256SUMS with the secret OpenPGP key in KEYFILE, which has no passphrase.
Times in the archives are the commit's, or SOURCE_DATE_EPOCH, so that the same commit gives the same bytes, but signatures." ;;
  release) echo "./dev release --dry-run [--key FILE]
Makes all that ./dev package makes and the Helm chart, with FILE signs as ./dev package --sign does, and then does what a release would do,
without publishing: tags the commit in a clone, pushes image and chart to a registry on 127.0.0.1 that it starts, writes the provenance
(SLSA 1, an in-toto statement) dist/gpulens-VERSION.provenance.json, and checks everything again: signatures with the public key alone, each
file's SHA-256, image and chart pulled by digest, the program of image, .deb and tar.gz in roots without anything else.
FILE is a secret OpenPGP key without a passphrase (gpg --export-secret-keys --armor). Without --dry-run it reports what a release needs.
./dev --dry-run release prints the commands, as everywhere." ;;
  docs) echo "./dev docs
Makes a static site of docs/ with mkdocs-material, the C++ SDK's reference by Doxygen and the Python package's by mkdocstrings, in build/docs;
open build/docs/index.html. It loads nothing from elsewhere, search included. Its Python packages are in build/docs_venv. A broken link fails." ;;
  screenshots) echo "./dev screenshots
Makes the pictures of README again, in docs/pictures: builds, runs the demo for five minutes, loses one of its GPUs, and shows the page in
chromium, dark and light, gpulens top and gpulens why in tmux. A test fails when the program shows other names than the pictures." ;;
  clean) echo "./dev clean
Removes build/ and dist/, nothing else." ;;
  esac
}
