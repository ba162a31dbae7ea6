"""Barriers in shared memory (mbarrier), and the bulk copies that report to them.

Bulk copies are made at once, so that only their barriers are waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.async_copy import asynchronous_copy, wait_for_copies
from treadle.emulate.ptx.emit import Handlers, lanes, splat
from treadle.emulate.ptx.machine import BULK
from treadle.emulate.ptx.mbarrier_support import (
    ARRIVE,
    ARRIVE_EXPECT,
    COMPLETE,
    DROP,
    EXPECT,
    FIELD,
    INIT,
    WAIT,
    WAIT_PARITY,
)
from treadle.emulate.ptx.memory import address_lanes, copy_hint
from treadle.emulate.ptx.syntax import Address, Immediate, Operand, Sink
from treadle.emulate.ptx.tensor import tensor_copy
from treadle.emulate.simt.accesses import (
    fence,
    flight_commit,
    flight_wait,
    load_data,
    set_addresses,
    set_data,
)

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_ONE = Immediate(1)


# -- instructions

_WORDS = (
    "release", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta", "shared::cluster",
)  # fmt: skip


@HANDLERS.of("mbarrier")
def _mbarrier(e: Emitter, item: Instruction, m: Modifiers) -> None:
    action = m.one_of(
        ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "try_wait",
         "test_wait", "pending_count")
    )  # fmt: skip
    expects = action.startswith("arrive") and m.flag("expect_tx")
    m.flag("noComplete")
    while m.one_of(_WORDS):
        pass
    parity = m.flag("parity")
    m.flag("b64")
    operands = list(item.operands)
    if action == "pending_count":
        pending = e.op(f"and {lanes(64)} {e.read(operands[1], 64)}, {splat(64, FIELD)}")
        e.write(operands[0], e.op(f"trunc {lanes(64)} {pending} to {lanes(32)}"), 32)
        return
    result: Operand = Sink() if isinstance(operands[0], Address) else operands.pop(0)
    address, value = operands[0], (operands[1] if len(operands) > 1 else _ONE)
    if action == "inval":
        return
    number = {
        "init": INIT, "arrive": ARRIVE_EXPECT if expects else ARRIVE, "arrive_drop": DROP,
        "expect_tx": EXPECT, "complete_tx": COMPLETE, "try_wait": WAIT, "test_wait": WAIT,
    }.get(action)  # fmt: skip
    if number is None:
        raise m.fail()
    if number == WAIT and parity:
        number = WAIT_PARITY
    bits = 64 if number == WAIT else 32
    wide = e.read(value, bits)
    found = _act(e, number, address_lanes(e, address), wide, bits)
    if number in (WAIT, WAIT_PARITY):
        e.write_predicate(result, e.op(f"icmp ne {lanes(64)} {found}, zeroinitializer"))
    else:
        e.write(result, found, 64)


def _act(e: Emitter, number: int, addresses: str, value: str, bits: int) -> str:
    """Does something with the barrier at each lane's address; gives 64 bits."""
    wide = value
    if bits == 32:
        wide = e.op(f"zext {lanes(32)} {value} to {lanes(64)}")
    set_addresses(e, addresses)
    set_data(e, wide, 64)
    e.intrinsic(
        "treadle_ptx_mbarrier", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"i32 {e.site}", f"i32 {number}",
    )  # fmt: skip
    return load_data(e, 64)


@HANDLERS.of("cp")
def _copy(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not m.flag("async"):
        raise m.fail()
    if m.flag("bulk"):
        _bulk_copy(e, item, m)
    elif m.flag("mbarrier"):
        _arrive_with_copies(e, item, m)
    else:
        asynchronous_copy(e, item, m)


def _arrive_with_copies(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """cp.async.mbarrier.arrive: an arrival once the thread's copies have landed, which is now.

    Without `.noinc` the barrier expects one arrival more for it, so that nothing changes.
    """
    if not m.flag("arrive"):
        raise m.fail()
    counts = m.flag("noinc")
    m.one_of(("shared", "shared::cta"))
    m.flag("b64")
    wait_for_copies(e)
    if counts:
        _act(e, ARRIVE, address_lanes(e, item.operands[0]), e.read(_ONE, 32), 32)


def _bulk_copy(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """cp.async.bulk: a row of bytes between global and shared memory."""
    if m.flag("commit_group"):
        flight_commit(e, BULK)
        return
    if m.flag("wait_group"):
        m.flag("read")
        flight_wait(e, BULK, e.first(item.operands[0], 32))
        return
    if m.flag("tensor"):
        arrived = tensor_copy(e, item, m)
        if arrived is not None:
            _act(e, COMPLETE, *arrived, 64)
        return
    copy_hint(m)
    spaces = [word.split("::")[0] for word in m.rest if word.split("::")[0] in ("shared", "global")]
    m.rest = [word for word in m.rest if word.split("::")[0] not in ("shared", "global")]
    target, source, size, *rest = item.operands
    if m.flag("mbarrier::complete_tx::bytes") and spaces == ["shared", "global"]:
        inwards = 1
    elif m.flag("bulk_group") and spaces == ["global", "shared"]:
        inwards = 0
    else:
        raise m.fail()
    nbytes = e.read(size, 32)
    for area, operand in (("more", target), ("data", source)):
        set_data(e, address_lanes(e, operand), 64, area=area)
    set_data(e, e.op(f"zext {lanes(32)} {nbytes} to {lanes(64)}"), 64, 1, "more")
    e.intrinsic(
        "treadle_ptx_bulk", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"i32 {e.site}", f"i32 {inwards}",
    )  # fmt: skip
    if inwards:
        _act(e, COMPLETE, address_lanes(e, rest[0]), nbytes, 32)
    else:
        fence(e)
