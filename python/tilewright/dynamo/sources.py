"""Which line of the user's program a node comes from."""

from __future__ import annotations

import os
import re

import torch.fx

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def source_of(node: torch.fx.Node) -> str | None:
    """ "file.py:12 in forward: code" of the innermost frame outside PyTorch, `None` where nothing was recorded."""
    return source_of_trace(node.meta.get("stack_trace"))


def source_of_trace(trace: str | None) -> str | None:
    if not trace:
        return None
    frames: list[tuple[str, str, str, str]] = []
    lines = trace.splitlines()
    for number, text in enumerate(lines):
        match = _FRAME.match(text)
        if match is None:
            continue
        code = lines[number + 1].strip() if number + 1 < len(lines) and not _FRAME.match(lines[number + 1]) else ""
        frames.append((match["file"], match["line"], match["function"], code))
    if not frames:
        return None
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    file, line, function, code = (users or frames)[-1]
    return f"{os.path.basename(file)}:{line} in {function}" + (f": {code}" if code else "")
