"""cp.async: copies of sm_80 that land when they are waited for, and not before.

Hardware may be done with a copy at any time from its start on. Here the source is read at once and
shared memory is written as late as may be: until the thread waits for the group of the copy, what
is read there counts as never written, so a kernel that forgets to wait cannot get away with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.async_support import QUEUE_BYTES
from treadle.emulate.ptx.emit import lanes, splat
from treadle.emulate.ptx.memory import address_lanes, copy_hint
from treadle.emulate.ptx.syntax import Immediate
from treadle.emulate.simt.accesses import load, set_addresses, set_data

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["asynchronous_copy", "wait_for_copies"]


def asynchronous_copy(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """Starts a copy, closes a group of them, or waits for groups."""
    if m.flag("commit_group"):
        place = e.warp_field("groups")
        groups = e.op(f"load {lanes(32)}, ptr {place}, align 64")
        one = e.op(f"zext {lanes(1)} {e.mask} to {lanes(32)}")
        more = e.op(f"add {lanes(32)} {groups}, {one}")
        e.do(f"store {lanes(32)} {more}, ptr {place}, align 64")
    elif m.flag("wait_all"):
        wait_for_copies(e)
    elif m.flag("wait_group"):
        wait_for_copies(e, e.first(item.operands[0], 32))
    elif m.one_of(("ca", "cg")) and m.one_of(("shared", "shared::cta")) and m.flag("global"):
        copy_hint(m)
        _copy_in(e, item, m)
    else:
        raise m.fail()


def wait_for_copies(e: Emitter, newest: str = "-1") -> None:
    """Lets copies land: of each lane all groups but the `newest`, or with -1 whatever is there."""
    e.intrinsic(
        "treadle_ptx_copy_wait", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"ptr {_queue(e)}", f"i32 {newest}",
    )  # fmt: skip


def _queue(e: Emitter) -> str:
    """Where the Warp keeps the copies that are on their way."""
    return e.op(f"getelementptr i8, ptr %warp, i64 {e.layout.queue(QUEUE_BYTES)}")


def _copy_in(e: Emitter, item: Instruction, m: Modifiers) -> None:
    target, source, size = item.operands[:3]
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        raise m.fail("copies 4, 8 or 16 bytes")
    count = size.value // 4
    mask, rest = e.mask_bits, item.operands[3:]
    kept = e.read(rest[0], 32) if rest and e.width(rest[0]) != 64 else None
    if kept is not None:
        some = e.op(f"icmp ne {lanes(32)} {kept}, zeroinitializer")
        some = e.op(f"and {lanes(1)} {some}, {e.mask}")
        mask = e.op(f"bitcast {lanes(1)} {some} to i32")
    values = load(e, "global", address_lanes(e, source), 32, count, mask)
    if kept is not None:
        values = [_first_bytes(e, value, kept, 4 * i) for i, value in enumerate(values)]
    set_addresses(e, address_lanes(e, target))
    for part, value in enumerate(values):
        set_data(e, value, 32, part)
    e.intrinsic(
        "treadle_ptx_copy_start", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"i32 {e.site}", f"ptr {_queue(e)}", f"i32 {count}",
    )  # fmt: skip


def _first_bytes(e: Emitter, value: str, kept: str, at: int) -> str:
    """A word of which only the bytes before `kept` - `at` stay; the others are 0."""
    shape = lanes(32)
    left = e.op(f"sub {shape} {kept}, {splat(32, at)}")
    left = e.intrinsic("llvm.smax.v32i32", shape, f"{shape} {left}", f"{shape} zeroinitializer")
    left = e.intrinsic("llvm.smin.v32i32", shape, f"{shape} {left}", f"{shape} {splat(32, 4)}")
    wide = e.op(f"zext {shape} {e.op(f'shl {shape} {left}, {splat(32, 3)}')} to {lanes(64)}")
    ones = e.op(f"shl {lanes(64)} {splat(64, -1)}, {wide}")
    keep = e.op(f"trunc {lanes(64)} {e.op(f'xor {lanes(64)} {ones}, {splat(64, -1)}')} to {shape}")
    return e.op(f"and {shape} {value}, {keep}")
