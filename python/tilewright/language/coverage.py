"""Outputs are written whole: what stores reach of an Out, compared with its sizes.

Followed are stores whose place is a range that axes and slices walk; their ends become relations that are checked when sizes are bound, or are
refused where they differ for all sizes. Nothing is said of stores under run-time conditions or at indices that are data (`kernel.check` sees them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from . import sizes
from .builder import Builder, Param, Statement, show_size
from .sizes import ONE, ZERO, Size

Refuse = Callable[[Statement, str, str], NoReturn]


@dataclass(slots=True, frozen=True)
class _Extent:
    """What a store reaches of one dimension: `low, low + step, ..` below `high`, which is a whole number of steps from `low`."""

    low: Size
    high: Size
    step: int = 1


@dataclass(slots=True, frozen=True)
class _Box:
    store: Statement
    extents: tuple[_Extent, ...]


def require_whole_outputs(b: Builder, body: Sequence[Statement], params: Sequence[Param], refuse: Refuse) -> None:
    """Relates, for each Out, where its stores end to its sizes; calls `refuse(statement, message, hint)` where they never meet."""
    stores: dict[int, list[_Box | None]] = {}
    for store, around in _stores(body, ()):
        stores.setdefault(store["param"], []).append(_box(b, store, around))
    for p in params:
        boxes = stores.get(p.index, [])
        if p.type.kind == "out" and boxes and all(boxes):
            _cover(b, p, [box for box in boxes if box is not None], refuse)


def _stores(
    statements: Sequence[Statement], around: tuple[Statement, ...]
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    for s in statements:
        if s["op"] == "store":
            yield s, around
        for key in ("body", "then", "else"):
            yield from _stores(s.get(key, ()), (*around, s))


def _box(b: Builder, store: Statement, around: Sequence[Statement]) -> _Box | None:
    """What the store reaches over all turns of the loops around it; None if that cannot be told."""
    if any(s["op"] in ("if", "while") for s in around):
        return None
    names = {number: key for key, number in b.symbols.items()}
    shape = b.shapes[store["value"]]
    axes = [axis for s in around for axis in (s["axes"] if s["op"] == "parallel" else [s["axis"]])]
    extents = []
    walked: set[int] = set()
    for entry in store["index"]:
        if "value" in entry:
            return None
        low = b.sizes_of_texts[entry["start"]]
        terms = [(shape[d], b.sizes_of_texts[step]) for d, step in entry["terms"]]
        inside = [axis for axis in axes if names[axis["start"]] in low.symbols()]
        if len(inside) > 1 or len(terms) > 1 or any(axis["start"] in walked for axis in inside):
            return None
        walked |= {axis["start"] for axis in inside}
        count, step = (terms or [(ONE, ONE)])[0]
        if inside:
            (axis,) = inside
            start = sizes.symbol(names[axis["start"]])
            length = ONE if axis["tile"] == "scalar" else sizes.symbol(names[axis["size"]])
            rest = low.replace(names[axis["start"]], ZERO)
            moves = sizes.divide_exactly(low - rest, start)
            if moves is None or moves != step or count != length:
                return None  # tiles of several elements for one index, or with gaps
            begin, end = b.sizes_of_texts[axis["begin"]], b.sizes_of_texts[axis["end"]]
            low, count = rest + begin * step, end - begin
        if step.constant is None or step.constant < 1:
            return None
        extents.append(_Extent(low, low + count * step, step.constant))
        if not (b.bounds.is_global(low) and b.bounds.is_global(extents[-1].high)):
            return None
    return _Box(store, tuple(extents))


def _cover(b: Builder, p: Param, boxes: Sequence[_Box], refuse: Refuse) -> None:
    whole = _joined(boxes)
    if whole is None:
        return
    store, clipped = whole.store, all(box.store.get("clip", False) for box in boxes)
    for d, (extent, n) in enumerate(zip(whole.extents, p.sizes, strict=True)):
        where = f"dimension {d} of {p.name}"
        hint = f"stores that reach all of {p.name}, or {p.name}: InOut[...] if what the caller put there may stay"
        if extent.step != 1:
            refuse(store, f"the output {p.name} is written in part: in {where} one of {extent.step} elements is", hint)
        if extent.low != ZERO and not (clipped and b.bounds.proves(-extent.low)):
            if b.bounds.proves(extent.low - 1):
                refuse(
                    store,
                    f"the output {p.name} is written in part: {where} is written from {show_size(extent.low)} on",
                    hint,
                )
            b.relate(
                "le" if clipped else "eq", extent.low, ZERO, f"{where} is written from {{lhs}} on, and all of an Out is"
            )
        if extent.high == n or (clipped and b.bounds.proves(extent.high - n)):
            continue
        if b.bounds.proves(n - extent.high - 1):
            refuse(
                store,
                f"the output {p.name} is written in part: {where} has the size {show_size(n)} and is written up to"
                f" {show_size(extent.high)}",
                hint,
            )
        b.relate(
            "le" if clipped else "eq",
            n,
            extent.high,
            f"line {store['loc'][0]}: {where} has the size {{lhs}} and is written up to {{rhs}}, and an Out is written whole",
        )


def _joined(boxes: Sequence[_Box]) -> _Box | None:
    """One box of all elements of several that lie side by side or between one another along one dimension; else None."""
    first = boxes[0]
    differing = {d for box in boxes for d, (x, y) in enumerate(zip(first.extents, box.extents, strict=True)) if x != y}
    if not differing:
        return first
    if len(differing) > 1:
        return None
    (d,) = differing
    parts = [box.extents[d] for box in boxes]
    step = parts[0].step
    if step > 1:
        base = next((x for x in parts if all((y.low - x.low).constant is not None for y in parts)), None)
        offsets = sorted((x.low - base.low).constant or 0 for x in parts) if base is not None else []
        if [o - offsets[0] for o in offsets] != list(range(step)) or len({x.high - x.low for x in parts}) > 1:
            return None
        lowest = next(x for x in parts if base is not None and (x.low - base.low) == offsets[0])
        joined = _Extent(lowest.low, lowest.high)
    else:
        joined = parts.pop(0)
        while parts:
            beside = next((x for x in parts if x.low == joined.high or x.high == joined.low), None)
            if beside is None or beside.step != 1:
                return None
            parts.remove(beside)
            low, high = (joined.low, beside.high) if beside.low == joined.high else (beside.low, joined.high)
            joined = _Extent(low, high)
    return _Box(first.store, tuple(joined if k == d else x for k, x in enumerate(first.extents)))
