#!/usr/bin/env bash
# Benchmarks: the programs in bench/, and the side-by-side comparison when it lies beside the checkout. Run on a quiet machine.
. "$(dirname "$0")/common.sh"

export PYTHONPATH=$root/build/release/python${PYTHONPATH:+:$PYTHONPATH}
build release benchmarks
for program in build/release/bench/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  say "$program"
  "$program"
done
for program in bench/*.py; do
  [ -f "$program" ] || continue
  say "$program"
  "$python" "$program"
done
if [ -f "$shared/bench/peers.py" ]; then
  say "side by side, MiniLM"
  "$python" "$shared/bench/peers.py" --workloads minilm --threads "$jobs"
fi
