"""One emulated GPU for each test, and snippets of PTX run on arrays."""

import ctypes

import numpy as np
import pytest

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.cuda import EmulatedDriver
from treadle.emulate.ptx.execute import Program
from treadle.emulate.simt.machine import Region
from treadle.target import host_target

HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"


@pytest.fixture(scope="session")
def compile_ir():
    return LLVMCompiler(host_target()).compile


class Gpu:
    """A context of an emulated device, with arrays instead of addresses."""

    def __init__(self, compile_ir, arch="sm_90a", threads=1, checks_races=True):
        self.context = EmulatedDriver(
            arch, compile_ir=compile_ir, threads=threads, checks_races=checks_races
        ).open(0)

    def put(self, array):
        array = np.ascontiguousarray(array)
        address = self.context.alloc(max(array.nbytes, 1), None)
        self.context.copy_in(address, array.ctypes.data, array.nbytes, None)
        return address

    def get(self, address, shape, dtype):
        array = np.empty(shape, dtype)
        self.context.copy_out(array.ctypes.data, address, array.nbytes, None)
        return array

    def launch(self, image, name, grid, block, *args, shared=0):
        """Arrays among `args` go to the device and come back as they are then."""
        grid, block = (tuple(d) if isinstance(d, tuple) else (d, 1, 1) for d in (grid, block))
        module = self.context.load(image.encode() if isinstance(image, str) else image)
        places = [self.put(a) if isinstance(a, np.ndarray) else None for a in args]
        packed = [
            ("int32", int(a)) if place is None else ("address", place)
            for a, place in zip(args, places, strict=True)
        ]
        kernel = module.function(name)
        kernel.allow_shared(shared)
        self.context.launch(kernel, grid, block, shared, None, packed)
        return [
            self.get(place, a.shape, a.dtype)
            for a, place in zip(args, places, strict=True)
            if place is not None
        ]


@pytest.fixture
def gpu(compile_ir):
    return Gpu(compile_ir)


@pytest.fixture
def gpus(compile_ir):
    """Makes emulated devices of any architecture."""
    return lambda arch, **options: Gpu(compile_ir, arch, **options)


_LOADS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@pytest.fixture(scope="session")
def run(compile_ir):
    """run("add.s32 %d, %a, %b;", a, b, out=np.int32): the code for each element of the arrays.

    Registers %a, %b, %c hold the elements and %d the result; %t0..7 have 32 bits, %u0..7 64,
    %h0..7 16, and %p0..3 are predicates.
    """

    def run(code, *arrays, out, target="sm_90a"):
        arrays = [np.ascontiguousarray(array) for array in arrays]
        count = arrays[0].size
        result = np.zeros(count, out)
        text = snippet(code, [array.itemsize for array in arrays], result.itemsize, target)
        held = [result, *arrays]
        regions = [Region(array.ctypes.data, array.nbytes) for array in held]
        params = b"".join(ctypes.c_uint64(array.ctypes.data) for array in held)
        program = Program(text, compile_ir, checks_races=True)
        program.launch("k", (1, 1, 1), (count, 1, 1), params, regions)
        return result

    return run


def snippet(code, sizes, result_size, target):
    names = "abc"[: len(sizes)]
    params = ", ".join(f".param .u64 p{i}" for i in range(len(sizes) + 1))
    bits = lambda size: max(16, 8 * size)
    registers = "".join(
        f".reg .b{bits(size)} %{name};\n" for name, size in zip(names, sizes, strict=True)
    )
    loads = "".join(
        f"ld.param.u64 %x, [p{i + 1}];\nmad.wide.u32 %x, %i, {size}, %x;\n"
        f"ld.global.{_LOADS[size]} %{name}, [%x];\n"
        for i, (name, size) in enumerate(zip(names, sizes, strict=True))
    )
    return f"""{HEAD.format(target=target)}
.visible .entry k({params}) {{
.reg .b64 %x; .reg .b32 %i; {registers} .reg .b{bits(result_size)} %d;
.reg .b32 %t<8>; .reg .b64 %u<8>; .reg .b16 %h<8>; .reg .pred %p<4>;
mov.u32 %i, %tid.x;
{loads}
{code}
ld.param.u64 %x, [p0];
mad.wide.u32 %x, %i, {result_size}, %x;
st.global.{_LOADS[result_size]} [%x], %d;
ret;
}}
"""
