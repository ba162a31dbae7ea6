"""How kernels access memory, as calls of support functions.

    values = load(e, "global", addresses, 32)

Addresses and data go to the Warp, where the functions find them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from treadle.emulate.simt.machine import LOAD, ORDERS_ALL, TOUCH
from treadle.emulate.simt.support import access_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treadle.emulate.simt.emit import Emitter

__all__ = [
    "barrier_orders", "fence", "flight_commit", "flight_start", "flight_wait", "load", "load_data",
    "load_scalars", "read_modify_write", "set_addresses", "set_data", "store", "strong",
    "warp_sync",
]  # fmt: skip


def set_addresses(e: Emitter, addresses: str) -> None:
    """Puts addresses where the support functions look for them."""
    e.do(f"store {e.lanes('i64')} {addresses}, ptr {e.warp_field('addresses')}, align 64")


def _data_place(e: Emitter, bits: int, part: int, area: str = "data") -> str:
    """Where element `part` of all lanes lies."""
    return e.warp_field(area, part * e.machine.width * bits // 8)


def _align(e: Emitter, bits: int) -> int:
    return min(64, bits // 8 * e.machine.width)


def set_data(e: Emitter, value: str, bits: int, part: int = 0, area: str = "data") -> None:
    """Puts element `part` of all lanes where the support functions look for it."""
    place = _data_place(e, bits, part, area)
    e.do(f"store {e.lanes(f'i{bits}')} {value}, ptr {place}, align {_align(e, bits)}")


def load_data(e: Emitter, bits: int, part: int = 0) -> str:
    """Element `part` of all lanes, as a support function has left it."""
    place = _data_place(e, bits, part)
    return e.op(f"load {e.lanes(f'i{bits}')}, ptr {place}, align {_align(e, bits)}")


def _access(e: Emitter, kind: str, space: str, bits: int, count: int, mask: str) -> None:
    e.intrinsic(
        access_name(kind, space, bits, count), "void", "ptr %block", "ptr %warp",
        f"{e.machine.mask} {mask or e.mask_bits}", f"i32 {e.site}",
    )  # fmt: skip


def load(
    e: Emitter, space: str, addresses: str, bits: int, count: int = 1, mask: str = ""
) -> list[str]:
    """Elements of `bits` from each lane's address on, in `global`, `shared`, `local` or `generic`.

    What lanes get that are not there or whose access is a fault is anything.
    """
    set_addresses(e, addresses)
    _access(e, "load", space, bits, count, mask)
    return [load_data(e, bits, part) for part in range(count)]


def store(
    e: Emitter, space: str, addresses: str, bits: int, values: Sequence[str], mask: str = ""
) -> None:
    """Elements of `bits` to each lane's address on."""
    set_addresses(e, addresses)
    for part, value in enumerate(values):
        set_data(e, value, bits, part)
    _access(e, "store", space, bits, len(values), mask)


def read_modify_write(
    e: Emitter, function: str, space: str, addresses: str, bits: int, value: str, other: str = "",
    mask: str = "",
) -> str:  # fmt: skip
    """What was at the addresses before `function` (see atomics) changed it, as lanes."""
    set_addresses(e, addresses)
    set_data(e, value, bits)
    if other:
        set_data(e, other, bits, area="more")
    check, how = (
        ("touch_global", ()) if space == "global" else (f"check_{space}", (f"i32 {TOUCH}",))
    )
    good = e.support(check, f"i32 {bits // 8}", *how, result=e.machine.mask, mask=mask)
    e.do(f"call void {function}(ptr %warp, {e.machine.mask} {good})")
    return load_data(e, bits)


def load_scalars(e: Emitter, address: str, bits: int, count: int = 1) -> list[str]:
    """Elements of `bits` from one global address on, an i64, for the warp: whichever lanes act.

    The first lane is told of by a fault, after which they are anything. Races are not looked for.
    """
    nbytes = bits // 8 * count
    host = e.intrinsic(
        "treadle_simt_host", "i64", "ptr %block", "ptr %warp", f"i32 {e.site}", "i32 0",
        f"i64 {address}", f"i32 {nbytes}", f"i32 {LOAD}",
    )  # fmt: skip
    wrong = e.op(f"icmp eq i64 {host}, 0")
    there = e.op(f"inttoptr i64 {host} to ptr")
    place = e.op(f"select i1 {wrong}, ptr {e.warp_field('more')}, ptr {there}")
    places = [e.op(f"getelementptr i{bits}, ptr {place}, i64 {part}") for part in range(count)]
    return [e.op(f"load i{bits}, ptr {each}, align 1") for each in places]


# -- order


def _set_in_block(e: Emitter, name: str, value: int) -> None:
    e.do(f"store i32 {value}, ptr {e.block_field(name)}")


def fence(e: Emitter) -> None:
    """What was done to memory before is ordered before what the block does from now on."""
    e.intrinsic("treadle_simt_fence", "void", "ptr %block", f"i32 {ORDERS_ALL}")
    _set_in_block(e, "ordered", 1)


def warp_sync(e: Emitter, orders: int = ORDERS_ALL) -> None:
    """What was done to memory before is ordered before what the warp does from now on.

    `orders` says to which memory: ORDERS_SHARED, ORDERS_GLOBAL, both or none.
    """
    e.intrinsic("treadle_simt_warp_sync", "void", "ptr %block", "ptr %warp", f"i32 {orders}")


def barrier_orders(e: Emitter, orders: int) -> None:
    """The barrier that follows orders this memory; without it a barrier orders all."""
    _set_in_block(e, "barrier_orders", orders)


@contextlib.contextmanager
def strong(e: Emitter) -> Iterator[None]:
    """In this block of code accesses to global memory are no races, and order the block."""
    _set_in_block(e, "ordered", 1)
    _set_in_block(e, "strong", 1)
    yield
    _set_in_block(e, "strong", 0)


# -- reads under way: see pending_reads


def flight_start(e: Emitter, kind: int, low: str, high: str) -> None:
    """Shared memory from `low` to `high` may be read until it is waited for."""
    e.intrinsic(
        "treadle_simt_flight_start", "void", "ptr %block", "ptr %warp",
        f"{e.machine.mask} {e.mask_bits}", f"i32 {kind}", f"i64 {low}", f"i64 {high}",
    )  # fmt: skip


def flight_commit(e: Emitter, kind: int) -> None:
    """Closes a group of the warp's, if any lane is here."""
    place = e.warp_field("flight_groups", 4 * kind)
    count = e.op(f"load i32, ptr {place}")
    some = e.op(f"icmp ne {e.machine.mask} {e.mask_bits}, 0")
    one = e.op(f"zext i1 {some} to i32")
    e.do(f"store i32 {e.op(f'add i32 {count}, {one}')}, ptr {place}")


def flight_wait(e: Emitter, kind: int, newest: str) -> None:
    """Waits for all groups of the warp's but the newest ones, of which there are an i32."""
    e.intrinsic(
        "treadle_simt_flight_wait", "void", "ptr %block", "ptr %warp",
        f"{e.machine.mask} {e.mask_bits}", f"i32 {kind}", f"i32 {newest}",
    )  # fmt: skip
