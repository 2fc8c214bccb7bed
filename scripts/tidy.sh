#!/usr/bin/env bash
# clang-tidy over our C++ files, or over those named: slower than lint, so not part of it.
. "$(dirname "$0")/common.sh"

[ -f build/release/compile_commands.json ] || cmake --preset release
cmake --build build/release -j "$jobs" # precompiled headers and generated files must be there
files=("$@")
[ ${#files[@]} != 0 ] || mapfile -t files < <(git ls-files 'lib/*.cpp' 'tools/*.cpp')
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 4 clang-tidy-19 -p build/release --quiet --warnings-as-errors='*'
