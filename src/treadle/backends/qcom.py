"""QCOM: Qualcomm's Adreno GPUs.

Its compiler is here, its runtime is not: it is refused by name. `DEV=NULL:0:ADRENO:a630` compiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..target import Target, adreno_target
from .record import Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..compile.ir3 import IR3Compiler
    from ..render.base import Renderer

__all__ = ["ADRENO", "QCOM"]

_DEFAULT = "a630"


def _target(request: Request) -> Target:
    return adreno_target(request.arch or _DEFAULT)


def _compiler(target: Target, device: object) -> IR3Compiler:
    from ..compile.ir3 import IR3Compiler

    return IR3Compiler(target)


def _renderer(target: Target, contract: bool) -> Renderer:
    from ..render.ir3 import IR3Renderer

    return IR3Renderer(target, contract)


ADRENO = Toolchain("ADRENO", "treadle's own", _compiler, _renderer, _target)

QCOM = Backend(
    "QCOM",
    "Qualcomm's Adreno GPUs",
    spellings=("QCOM_IR3", "QCOM_CL"),
)
