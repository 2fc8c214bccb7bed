#!/usr/bin/env bash
# Checks formatting, style and types; with --fix repairs what can be repaired.
. "$(dirname "$0")/common.sh"

mapfile -t cpp < <(git ls-files -co --exclude-standard 'include/*.h' 'lib/*.h' 'lib/*.cpp' 'tools/*.h' 'tools/*.cpp' 'test/unit/*.h' \
  'test/unit/*.cpp' 'bench/*.cpp' 'cmake/*.h' | while read -r file; do [ -f "$file" ] && echo "$file"; done)
python_folders=()
for folder in python test bench examples scripts; do
  [ -d "$folder" ] && python_folders+=("$folder")
done

if [ "${1:-}" = --fix ]; then
  [ ${#cpp[@]} = 0 ] || clang-format-19 -i "${cpp[@]}"
  "$venv/bin/ruff" check --fix --quiet "${python_folders[@]}" || true
  "$venv/bin/ruff" format "${python_folders[@]}"
  exit
fi

failed=0
check() {
  say "$1"
  shift
  "$@" || failed=1
}
[ ${#cpp[@]} = 0 ] || check "clang-format (${#cpp[@]} files)" clang-format-19 --dry-run -Werror "${cpp[@]}"
check "ruff check" "$venv/bin/ruff" check "${python_folders[@]}"
check "ruff format" "$venv/bin/ruff" format --check "${python_folders[@]}"
check "mypy" "$venv/bin/mypy"
[ $failed = 0 ] || { echo "lint failed; 'make format' repairs what can be repaired" >&2; exit 1; }
