"""Which words of memory a launch reads and writes, for whoever checks its order behind others.

    footprint = Footprint(start, nbytes)
    Region(start, nbytes, delta, footprint=footprint.record)
    ...                                        # a launch
    for how, words in footprint.take(): ...    # what it did: LOAD, STORE or TOUCH; numbers of words

For each word of 4 bytes there is one byte for each of the three, which an access makes 1. So host
threads may do it at the same time. Pages that were touched are noted as well: the others are not
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from treadle.emulate.simt.code import LANES, Code
from treadle.emulate.simt.machine import LOAD, STORE, TOUCH
from treadle.emulate.simt.shadow import reduce_lanes

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = ["Footprint", "footprint_functions"]

_WORD_SHIFT, _PAGE_SHIFT = 2, 12
_WORDS = 1 << _PAGE_SHIFT - _WORD_SHIFT  # of a page
# Words of the record that code reads: where the marks of LOAD are, how far on those of the next
# kind are, and where the marks of pages are, all as of a region that begins at address 0.
_MARKS, _STRIDE, _PAGES = range(3)


class Footprint:
    """The marks of a region that begins at `start`, a whole page, and has `nbytes`."""

    def __init__(self, start: int, nbytes: int) -> None:
        pages = -(-nbytes >> _PAGE_SHIFT) + 1
        self._stride = pages * _WORDS
        self._marks = np.zeros((3, self._stride), np.uint8)
        self._pages = np.zeros(pages, np.uint8)
        marks = self._marks.ctypes.data - (start >> _WORD_SHIFT)
        page_marks = self._pages.ctypes.data - (start >> _PAGE_SHIFT)
        self._record = np.array([marks, self._stride, page_marks], np.int64)

    @property
    def record(self) -> int:
        """The address of what code finds the marks by."""
        return self._record.ctypes.data

    def take(self) -> Iterator[tuple[int, np.ndarray]]:
        """What was accessed since the last time, and forgets it: how, and numbers of words."""
        touched = np.flatnonzero(self._pages)
        if not touched.size:
            return
        self._pages[touched] = 0
        breaks = np.flatnonzero(np.diff(touched) > 1) + 1
        for run in np.split(touched, breaks):
            first, last = int(run[0]) * _WORDS, (int(run[-1]) + 1) * _WORDS
            for how in (LOAD, STORE, TOUCH):
                marks = self._marks[how, first:last]
                found = np.flatnonzero(marks)
                if found.size:
                    marks[:] = 0
                    yield how, found + first


def footprint_functions(m: Machine) -> list[str]:
    """mark_bytes for one access, mark_lanes for those of a mask."""
    return [_mark_bytes(m), _mark_lanes(m)]


def _word(code: Code, number: int) -> str:
    return code.op(f"load i64, ptr {code.at('%record', number, 8)}")


def _mark_bytes(m: Machine) -> str:
    """Marks all words that `nbytes` from an address on are in."""
    code = Code(
        m, "void", "mark_bytes", "ptr %record, i64 %address, i64 %nbytes, i32 %how", "noinline"
    )
    last = code.op(f"add i64 {code.op('add i64 %address, %nbytes')}, -1")

    def marked(base: str, shift: int) -> None:
        low = code.op(f"lshr i64 %address, {shift}")
        count = code.op(f"sub i64 {code.op(f'lshr i64 {last}, {shift}')}, {low}")
        place = code.op(f"inttoptr i64 {code.op(f'add i64 {base}, {low}')} to ptr")

        def several() -> None:
            whole = code.op(f"add i64 {count}, 1")
            code.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 1, i64 {whole}, i1 false)")

        single = code.op(f"icmp eq i64 {count}, 0")
        code.when(single, lambda: code.do(f"store i8 1, ptr {place}"), several)

    kind = code.op(f"mul i64 {_word(code, _STRIDE)}, {code.wide('%how')}")
    marked(code.op(f"add i64 {_word(code, _MARKS)}, {kind}"), _WORD_SHIFT)
    marked(_word(code, _PAGES), _PAGE_SHIFT)
    code.do("ret void")
    return code.text


def _mark_lanes(m: Machine) -> str:
    """Marks what the lanes of a mask access; at once, if all act and follow each other."""
    code = Code(m, "void", "mark_lanes", f"ptr %record, {LANES}, i32 %nbytes, i32 %how", "noinline")
    nbytes = code.wide("%nbytes")
    addresses = code.op(f"load <W x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    low = reduce_lanes(code, "umin", addresses)
    apart = code.op(f"sub <W x i64> {addresses}, {code.spread('i64', low)}")
    full = code.op("icmp eq MASK %mask, -1")

    def mark(start: str, count: str) -> None:
        code.do(f"call void @mark_bytes(ptr %record, i64 {start}, i64 {count}, i32 %how)")

    def when_all(same: str, count: str) -> None:
        good = code.op(f"call i1 @llvm.vector.reduce.and.vWi1(<W x i1> {same})")

        def at_once() -> None:
            mark(low, count)
            code.leave("ret void")

        code.when(good, at_once)

    def together() -> None:
        steps = code.op(f"mul <W x i64> {m.iota}, {code.spread('i64', nbytes)}")
        whole = code.op(f"mul i64 {nbytes}, {m.width}")
        when_all(code.op(f"icmp eq <W x i64> {apart}, {steps}"), whole)
        when_all(code.op(f"icmp eq <W x i64> {apart}, zeroinitializer"), nbytes)

    code.when(full, together)
    code.each_lane("%mask", lambda lane: mark(code.lane_address(lane), nbytes))
    code.do("ret void")
    return code.text
