#!/usr/bin/env bash
# Builds with coverage instrumentation, runs unit tests, lit and pytest, and prints line coverage by file.
. "$(dirname "$0")/common.sh"

build coverage
profiles=$root/build/coverage/profiles
rm -rf "$profiles"
mkdir -p "$profiles"
export LLVM_PROFILE_FILE=$profiles/%p-%m.profraw PYTHONPATH=$root/build/coverage/python
export BUILD_DIR=$root/build/coverage HF_HUB_OFFLINE=1
ctest --test-dir build/coverage --output-on-failure -j "$jobs" || echo "unit tests failed; coverage goes on"
"$venv/bin/lit" -q -j "$jobs" -D build="$root/build/coverage" test/lit || echo "lit failed; coverage goes on"
"$python" -m pytest -q test/python || echo "pytest failed; coverage goes on"

say "Line coverage"
"$llvm/bin/llvm-profdata" merge -sparse "$profiles"/*.profraw -o build/coverage/merged.profdata
objects=()
for object in build/coverage/python/tilewright/*.so build/coverage/bin/* build/coverage/test/tilewright_*_test; do
  [ -L "$object" ] || objects+=(-object "$object")
done
"$llvm/bin/llvm-cov" report "${objects[@]:1}" -instr-profile build/coverage/merged.profdata \
  --ignore-filename-regex='(/usr/|/\.venv/|/build/|/test/)' --show-branch-summary=false --show-region-summary=false
