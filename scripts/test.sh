#!/usr/bin/env bash
# All tests, after a build with the release preset: unit tests, lit, pytest, then the acceptance cases and the conformance smoke
# test when they lie beside the checkout, then (CI=true) three minutes of the campaigns. Runs every tier and fails if one failed.
. "$(dirname "$0")/common.sh"

build_dir=build/release
export PYTHONPATH=$root/$build_dir/python${PYTHONPATH:+:$PYTHONPATH}
export BUILD_DIR=$root/$build_dir
export HF_HUB_OFFLINE=1
# A cache of this run's own: shared by its processes, not filled by an earlier build.
export TILEWRIGHT_CACHE=$root/$build_dir/test-cache
rm -rf "$TILEWRIGHT_CACHE"
failed=()
summary=()
tier() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  if "$@" </dev/null; then
    summary+=("$(printf 'ok      %5d s  %s' $((SECONDS - start)) "$name")")
  else
    failed+=("$name")
    summary+=("$(printf 'FAILED  %5d s  %s' $((SECONDS - start)) "$name")")
  fi
}

tier "unit tests" ctest --test-dir "$build_dir" --output-on-failure --no-tests=error -j "$jobs"
tier "lit" "$venv/bin/lit" -v -j "$jobs" -D build="$root/$build_dir" test/lit
if [ -d "$shared/cases" ]; then
  tier "acceptance cases" "$python" -m pytest -q -c "$shared/cases/pytest.ini" --rootdir "$shared/cases" \
    "$shared"/cases/test_{views,empty_and_odd_sizes,indexing}.py
fi
if [ -f "$shared/conformance/opinfo.py" ]; then
  tier "conformance smoke" "$python" "$shared/conformance/opinfo.py" --smoke --strict --jobs "$jobs"
fi
if [ "${CI:-}" = true ]; then
  tier "campaigns" scripts/campaign.sh --seconds 180
fi
# Last, so that its closing line is the log's.
tier "pytest" "$python" -m pytest -q test/python

say "Summary"
printf '%s\n' "${summary[@]}"
if [ ${#failed[@]} != 0 ]; then
  echo "FAILED: ${failed[*]}" >&2
  exit 1
fi
