"""`tilewright bringup SPEC`: brings a model up on npu and reports on numbers, coverage, memory and speed.

The native command (tools/tilewright) starts `python -m tilewright.bringup`. docs/bringup.md is for users, docs/report-schema.md
describes report.json. `runner.py` is the table of contents: one step, one module.
"""
