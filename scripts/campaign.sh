#!/usr/bin/env bash
# Runs what is too long for the tests: each test/campaign/*.py is a seeded random search that goes on where it stopped.
#   scripts/campaign.sh [--seconds TOTAL]     shared evenly by the campaigns; default one hour
. "$(dirname "$0")/common.sh"

seconds=3600
[ "${1:-}" != --seconds ] || seconds=$2
export PYTHONPATH=$root/build/release/python${PYTHONPATH:+:$PYTHONPATH}
mapfile -t campaigns < <(find test/campaign -maxdepth 1 -name '*.py' ! -name '_*' 2>/dev/null | sort)
[ ${#campaigns[@]} != 0 ] || { echo "no campaign in test/campaign"; exit 0; }
mkdir -p build/campaign
status=0
for campaign in "${campaigns[@]}"; do
  name=$(basename "$campaign" .py)
  say "campaign $name, $((seconds / ${#campaigns[@]})) s"
  "$python" "$campaign" --seconds $((seconds / ${#campaigns[@]})) --state "build/campaign/$name.json" || status=1
done
exit $status
