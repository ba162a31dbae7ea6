"""A compiler for Adreno 6xx: the text that render/ir3 prints becomes machine code.

    IR3Compiler(adreno_target("a630")).compile(text)   ->  an object (see ir3_object)

`code` has the data that all other modules work on: operands, instructions, blocks, kernels.
`tables` has what is known of instructions. `compiler` has the steps, in their order:

    text         text to a kernel of blocks
    conditions   conditions of one value that follow each other become one
    operands     copies are read through, and literals find a place
    loops        addresses leave loops
    vectors      accesses to neighbouring words become one
    schedule     the order of instructions in a block
    registers    a register for each value, with `liveness` and `spill`
    hazards      waits and nops
    encode       words
"""

from __future__ import annotations

from .compiler import IR3Compiler, machine_code

__all__ = ["IR3Compiler", "machine_code"]
