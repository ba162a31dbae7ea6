"""What AIR adds to the core that runs warps."""

from __future__ import annotations

from treadle.emulate.air.machine import MACHINE
from treadle.emulate.air.matrix import MULTIPLY, matrix_functions
from treadle.emulate.simt.front_end import FrontEnd

__all__ = ["AIR"]

AIR = FrontEnd("air", MACHINE, symbols=(MULTIPLY,), functions=matrix_functions)
