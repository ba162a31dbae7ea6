"""Kernels of treadle's and of LLVM IR, as AMD machine code in emulated memory, on arrays."""

import math
import struct

import numpy as np
import pytest

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.amd.decode import decode
from treadle.emulate.amd.execute import Executor
from treadle.emulate.kfd.dispatch import Dispatch
from treadle.emulate.machine.memory import AddressSpace, MemoryObject, Permission
from treadle.emulate.machine.ordering import Ordering
from treadle.engine.realized import current
from treadle.ir.elementwise import numpy_dtype
from treadle.ir.loops import loop_size
from treadle.ir.node import Op
from treadle.ir.shape import size_max
from treadle.lower.linearize import param_bytes
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.runtime.hardware.codeobject import link
from treadle.schedule.passes import schedule
from treadle.target import amd_target

PAGE = 4096
WAVES = 24  # that have scratch memory at a time
BASE = 0x7_0000_0000
PACKET = struct.Struct("<6H5IQQ16x")  # an AQL dispatch packet, which kernels may read


class Machine:
    """An address space with code and arrays, and the emulated compute units."""

    def __init__(self, compile_ir, chip, **options):
        self.chip, self.space, self._next = chip, AddressSpace(Ordering()), BASE
        self._execute = Executor(compile_ir, **options)
        self._arrays = {}

    def put(self, data, permissions=Permission.READ | Permission.WRITE):
        """The address of bytes that lie in memory of their own."""
        nbytes = -(-max(len(data), 1) // PAGE) * PAGE
        start, self._next = self._next, self._next + nbytes + PAGE
        self.space.map(start, nbytes, MemoryObject(nbytes), Permission.READ | Permission.WRITE)
        self.space.write(start, data)
        mapping = self.space.find(start, 0)
        self.space.unmap(start)
        self.space.map(start, nbytes, mapping.owner, permissions)
        return start

    def load(self, code):
        """The image of an object file, and where it lies."""
        image = link(code)
        return image, self.put(image.data, Permission.READ | Permission.EXECUTE)

    def launch(self, loaded, name, groups, workgroup, kernargs, shared=0):
        """Runs a kernel whose kernarg segment has these bytes.

        `shared` are bytes of shared memory beyond those that its descriptor has.
        """
        image, base = loaded
        kernel = image.kernels[name]
        d = kernel.descriptor
        kernargs = kernargs.ljust(-(-len(kernargs) // 4) * 4, b"\0")
        segment = self.put(kernargs.ljust(d.kernarg_bytes, b"\0"), Permission.READ)
        items = [n * size for n, size in zip(groups, workgroup, strict=True)]
        group_bytes = d.group_bytes + shared
        packet = PACKET.pack(
            2, 3, *workgroup, 0, *items, d.private_bytes, group_bytes, base + kernel.at, segment
        )
        words, scratch_wave = [], d.private_bytes * kernel.wave
        scratch = self.put(b"\xff" * scratch_wave * WAVES)
        neighbours = kernel.wave.bit_length() - 4  # as a power of two, times 8
        given = {
            "kernarg_segment_ptr": segment, "flat_scratch_init": scratch,
            "dispatch_ptr": self.put(packet, Permission.READ),
            # Records for each lane, words in turn, and no limit.
            "private_segment_buffer": scratch | 1 << 63 | 0xFFFFFFFF << 64
            | (neighbours << 21 | 1 << 23 | 2 << 28) << 96,
        }  # fmt: skip
        for what, count in d.user_sgprs:
            words += [given.get(what, 0) >> 32 * i & 0xFFFFFFFF for i in range(count)]
        count, first = d.preloaded
        data = kernargs.ljust(4 * (first + count), b"\0")
        words += np.frombuffer(data, np.uint32)[first : first + count].tolist()
        words += [0] * (d.user_sgpr_count - len(words))
        self._execute(
            Dispatch(
                self.chip, base + kernel.entry, d.rsrc1, d.rsrc2, d.rsrc3, tuple(words), workgroup,
                tuple(items), group_bytes, 0, scratch_wave, WAVES, kernel.wave, self.space,
            )
        )  # fmt: skip


@pytest.fixture
def machine(compile_ir):
    """machine("gfx1100")"""
    return lambda chip, **options: Machine(compile_ir, chip, **options)


def compile_for(chip, text):
    """The object file of LLVM IR."""
    return LLVMCompiler(amd_target(chip)).compile(text)


def instructions(image, chip):
    """The instructions of the kernel k up to its end, with their places."""
    kernel = image.kernels["k"]
    at, operation = kernel.entry, ""
    while operation != "s_endpgm":
        item = decode(image.data, at, chip, kernel.wave)
        yield at, item
        at, operation = at + item.size, item.operation


def run_tensor(machine, chip, tensor, renderer, compiler):
    """The value of a lazy tensor, by kernels that a chip's machine code is made of."""
    target = amd_target(chip)
    root = current([tensor.node])[0][0]
    places, sizes = {}, {}

    def key(node):
        return node.arg.token if node.op is Op.BUFFER else node

    for kernel in schedule((root,), "CPU", target)[0]:
        ast, _ = optimize(kernel.ast, target)
        lowered = lower(ast, len(kernel.buffers), target)
        assert not lowered.variables
        slots = []
        for node in kernel.buffers:
            if key(node) not in places:
                given = node.op is Op.BUFFER and node.arg.token.memory
                count = math.prod(map(size_max, node.shape)) if not given else 0
                data = given.array().tobytes() if given else bytes(count * node.dtype.itemsize)
                places[key(node)], sizes[key(node)] = machine.put(data), len(data)
            slots.append(places[key(node)])
        slots += [machine.put(bytes(param_bytes(param))) for param in lowered.scratch]
        code = machine.load(compiler.compile(renderer.render("k", lowered.phases, ())))
        for number, phase in enumerate(lowered.phases):
            kernargs = struct.pack(
                f"<{len(phase.params)}Q", *(slots[param.arg.slot] for param, _ in phase.params)
            )
            groups = (loop_size(*phase.grid), 1, 1)
            machine.launch(code, f"k_{number}", groups, (phase.launched, 1, 1), kernargs)
    out = key(kernel.buffers[kernel.writes[0]])
    data = machine.space.read(places[out], sizes[out])
    kind = numpy_dtype(root.dtype)
    return np.frombuffer(data, kind).reshape(tensor.shape)
