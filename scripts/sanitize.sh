#!/usr/bin/env bash
# Runs the tests under sanitizers: scripts/sanitize.sh asan|tsan [pytest arguments]
#   asan: address and undefined behaviour, unit and Python tests; our own code is instrumented, MLIR and torch are not
#   tsan: data races in the runtime, its unit tests
. "$(dirname "$0")/common.sh"

preset=${1:-asan}
shift || true
build "$preset"
# Allocations by threads that live to the end of the process and by Python itself are no leaks of ours.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=1:strict_string_checks=1:abort_on_error=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}
export ASAN_SYMBOLIZER_PATH=$llvm/bin/llvm-symbolizer

say "unit tests under $preset"
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs"
if [ "$preset" = asan ]; then
  say "Python tests under asan"
  # The interpreter is not instrumented: the run-time library is loaded first, and libstdc++ with it, so that it can
  # intercept exceptions.
  LD_PRELOAD="$(clang++-19 -print-file-name=libclang_rt.asan-x86_64.so) $(clang++-19 -print-file-name=libstdc++.so.6)" PYTHONMALLOC=malloc \
    PYTHONPATH=$root/build/asan/python BUILD_DIR=$root/build/asan HF_HUB_OFFLINE=1 \
    "$python" -m pytest -q test/python "$@"
fi
