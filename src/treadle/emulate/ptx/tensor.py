"""cp.async.bulk.tensor: boxes of a tensor, between device memory and shared memory.

Each lane that runs the instruction moves a box of its own, at once; kernels elect one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.memory import address_lanes, copy_hint
from treadle.emulate.ptx.syntax import Address, Operand
from treadle.emulate.ptx.tensor_support import BOX_BYTES, INWARDS, MAP, SHARED
from treadle.emulate.simt.accesses import fence, load_data, set_data

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["tensor_copy"]

_RANKS = {f"{rank}d": rank for rank in range(1, 6)}
_INTO = ("shared::cluster", "shared::cta")


def tensor_copy(e: Emitter, item: Instruction, m: Modifiers) -> tuple[str, str] | None:
    """Moves a box. The barrier that counts its bytes and how many those are, if there is one."""
    rank = _RANKS.get(m.one_of(_RANKS), 0)
    copy_hint(m)
    m.flag("tile")
    if m.flag("prefetch"):
        m.flag("L2")
        m.flag("global")
        return None
    target, source, *rest = item.operands
    is_group = m.flag("bulk_group")
    if m.flag("mbarrier::complete_tx::bytes") and m.one_of(_INTO) and m.flag("global"):
        _move(e, m, rank, source, target, INWARDS)
        nbytes = load_data(e, 64, BOX_BYTES)
        return address_lanes(e, rest[0]), nbytes
    if is_group and m.flag("global") and m.flag("shared::cta"):
        _move(e, m, rank, target, source, 0)
        fence(e)
        return None
    raise m.fail()


def _move(
    e: Emitter, m: Modifiers, rank: int, tensor: Operand, shared: Operand, inwards: int
) -> None:
    if not isinstance(tensor, Address) or not rank or len(tensor.coordinates) != rank:
        raise m.fail(f"needs a tensor map and {rank or 'its'} coordinates")
    for part, operand in ((MAP, Address(tensor.base, tensor.offset)), (SHARED, shared)):
        set_data(e, address_lanes(e, operand), 64, part)
    for d in range(5):
        value = e.read(tensor.coordinates[d], 32) if d < rank else "zeroinitializer"
        set_data(e, value, 32, d, "more")
    e.intrinsic(
        "treadle_ptx_tensor", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"i32 {e.site}", f"i32 {rank + inwards}",
    )  # fmt: skip
