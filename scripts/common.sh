# Sourced by the scripts: where things are, and how progress is shown.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=$root/.venv
python=$venv/bin/python
llvm=${LLVM_ROOT:-/usr/lib/llvm-19}
shared=$root/../shared
jobs=${JOBS:-$(nproc)}

say() { printf '\n== %s\n' "$*"; }

# build PRESET [TARGET...]: configures once and builds.
build() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
  cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
}
