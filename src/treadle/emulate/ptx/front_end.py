"""What PTX adds to the core that runs warps: support functions, the start of a block, faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.async_support import ASYNC_SYMBOLS, async_functions
from treadle.emulate.ptx.machine import MACHINE, PTXFault
from treadle.emulate.ptx.mbarrier_support import MBARRIER_SYMBOLS, mbarrier_functions
from treadle.emulate.ptx.proxies import PROXY_SYMBOLS, proxy_functions
from treadle.emulate.ptx.tensor_support import TENSOR_SYMBOLS, tensor_functions
from treadle.emulate.simt.faults import coordinates
from treadle.emulate.simt.front_end import FrontEnd

if TYPE_CHECKING:
    from treadle.emulate.simt.code import Code
    from treadle.emulate.simt.front_end import FaultFacts

__all__ = ["PTX"]


def _functions() -> list[str]:
    return [*mbarrier_functions(), *tensor_functions(), *async_functions(), *proxy_functions()]


def _start_warp(code: Code, warp: str) -> None:
    """No copy is on its way."""
    first, last = MACHINE.warp["groups"], MACHINE.warp["next_copy"] + 4
    place = code.at(warp, first)
    code.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {last - first}, i1 false)")


def _proxy(facts: FaultFacts) -> str:
    thread = coordinates(facts.extra, facts.block)
    return (
        f"{facts.who}: wgmma or a bulk copy reads offset {facts.address} of shared memory, which "
        f"thread {thread} stored with no fence.proxy.async since"
    )


def _bad_tensor_map(facts: FaultFacts) -> str:
    return f"{facts.who}: there is no tensor map of {facts.extra} dimensions at 0x{facts.address:x}"


PTX = FrontEnd(
    "ptx",
    MACHINE,
    symbols=(*MBARRIER_SYMBOLS, *TENSOR_SYMBOLS, *ASYNC_SYMBOLS, *PROXY_SYMBOLS),
    functions=_functions,
    start_warp=_start_warp,
    faults={PTXFault.PROXY: _proxy, PTXFault.BAD_TENSOR_MAP: _bad_tensor_map},
    pending_reader="a wgmma or bulk copy",
)
