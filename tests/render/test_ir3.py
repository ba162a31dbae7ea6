"""Adreno's machine code from tensors on, run on emulated shader processors that find hazards."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from treadle import Tensor
from treadle.compile.ir3 import IR3Compiler, machine_code
from treadle.compile.ir3.text import parse
from treadle.dtype import dtypes
from treadle.engine.devices import _open
from treadle.engine.selection import parse_choice
from treadle.errors import InternalError
from treadle.ir.args import VarArg
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir3_object import unpack
from treadle.runtime import null
from treadle.runtime.base import Entry, Slot
from treadle.target import adreno_chip, adreno_target

from .conftest import ADRENO
from .kernels import elementwise, load, loops, lowered, param, source

has_emulator = importlib.util.find_spec("treadle.emulate.ir3") is not None
emulated = pytest.mark.skipif(
    not has_emulator, reason="this treadle has no emulator of Adreno's machine code"
)
DEVICE = "NULL:0:ADRENO:a650"
rng = np.random.default_rng(25)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def convolution(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


PROGRAMS = {
    "map": ((array(1000), array(1000)), lambda a, b: a * b + 1, None),
    "matmul": ((array(48, 40), array(40, 36)), lambda a, b: a @ b, None),
    "softmax": ((array(6, 300),), lambda a: a.softmax(), softmax),
    "layer norm": ((array(6, 96),), lambda a: a.layernorm(), layer_norm),
    "sum": ((array(70, 90),), lambda a: a.sum(), None),
    "columns": ((array(70, 90),), lambda a: a.max(0), None),
    "convolution": ((array(1, 3, 9, 10), array(4, 3, 3, 3)), lambda a, b: a.conv2d(b), convolution),
    "scan": ((array(5, 70),), lambda a: a.cumsum(1), lambda a: a.cumsum(1)),
    "padding": ((array(9, 11),), lambda a: a.pad(((1, 2), (3, 0))),
                lambda a: np.pad(a, ((1, 2), (3, 0)))),
    "halves": ((array(20, 24).astype(np.float16), array(24, 20).astype(np.float16)),
               lambda a, b: a @ b, lambda a, b: a.astype(np.float32) @ b.astype(np.float32)),
    "words": ((rng.integers(-(2**62), 2**62, 100), rng.integers(1, 2**40, 100)),
              lambda a, b: a // b + a % b, None),
    "bytes": ((rng.integers(0, 256, 333, np.uint8),), lambda a: a * 3 + 1, None),
    "turned": ((rng.integers(0, 256, 99, np.uint8), array(77)),
               lambda a, b: a.flip(0)[:50].cast(dtypes.float32) + b.flip(0)[:50],
               lambda a, b: a[::-1][:50].astype(np.float32) + b[::-1][:50]),
    "turned halves": ((array(55).astype(np.float16),), lambda a: a.flip(0)[:50] + a[:50],
                      lambda a: a[::-1][:50] + a[:50]),
    "order": ((array(4, 33),), lambda a: a.argmax(1), lambda a: a.argmax(1)),
    "diagonal": ((array(2, 12, 5),), lambda a: a[0].diagonal(-4), lambda a: a[0].diagonal(-4)),
    "mirror": ((array(12, 5),), lambda a: a[:2, :3].flip(0).T, lambda a: a[1::-1, :3].T),
    "bools": ((array(333),), lambda a: ((a > 0) & (a < 1)).sum(), None),
}  # fmt: skip


@emulated
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_numpy_gives(monkeypatch, name):
    from ..compile.adreno import AdrenoDevice

    monkeypatch.setattr(null, "NullDevice", AdrenoDevice)
    arrays, ours, theirs = PROGRAMS[name]
    found = ours(*(Tensor(a, device=DEVICE) for a in arrays)).numpy()
    want = (theirs or ours)(*arrays)
    if np.issubdtype(found.dtype, np.floating):
        bound = 2e-3 if found.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(found, want, bound, bound * max(1.0, float(np.abs(want).max())))
    else:
        np.testing.assert_array_equal(found, want)


@emulated
def test_values_that_were_in_private_memory_come_back():
    from treadle.emulate.kgsl import chips

    from ..compile.adreno import Phase

    count, head = 90, "kernel k work_items=64 buffers=1 variables=1 shared=0\n"
    lines = ["mov.u32u32 %4, r0.x", "vector %1 2", "mov.u32u32 %1.0, c0.x", "mov.u32u32 %1.1, c0.y"]
    lines += [f"mad.s24 %{n}, %4, {n}, c0.z" for n in range(10, 10 + count)]
    lines += ["mov.u32u32 %3, 0", *(f"add.u %3, %3, %{n}" for n in range(10, 10 + count))]
    lines += [*(f"xor.b %3, %3, %{n}" for n in range(10, 10 + count)),
              "stg.a.u32 %1:2, %3, %4, 0, 0, 1"]  # fmt: skip
    (kernel,) = parse(head.replace("=64", "=256") + "\n".join(lines))
    code = machine_code(kernel, adreno_chip("a610"))
    assert code.private > 0
    out = np.zeros(256, np.uint32)
    entry = Entry("k", 1, 256, (Slot(0, out.nbytes, True),), (0,))
    Phase(code, entry, chips.chip("a610")).run([out.ctypes.data], [77])
    items = np.arange(256, dtype=np.uint32)
    want = np.zeros(256, np.uint32)
    made = [items * n + np.uint32(77) for n in range(10, 10 + count)]
    for value in made:
        want += value
    for value in made:
        want ^= value
    np.testing.assert_array_equal(out, want)


def opened():
    """The compiler, without a device to run anything."""
    return _open(parse_choice(ADRENO))


def compiled(ast):
    """The text and the entry of a kernel that is made by hand."""
    text = source(opened(), ast)
    (entry,) = unpack(IR3Compiler(adreno_target("a630")).compile(text))
    return text, entry


def test_a_map_is_a_few_instructions():
    kinds = [dtypes.float32]
    text, entry = compiled(elementwise(kinds, kinds, lambda x: [x * 2 + 1], 1024, 4, 64))
    assert text.startswith("kernel k_0 work_items=64 buffers=2 variables=0 shared=0\n")
    assert text.count("mad.f32") == 4
    assert sum(line.strip().startswith("ldg.a.u32") for line in text.splitlines()) == 1
    assert (entry.work_items, entry.buffers, entry.private) == (64, 2, 0)
    assert len(entry.code) <= 24


def test_what_is_computed_twice_is_printed_once():
    kinds = [dtypes.uint32]
    text, _ = compiled(elementwise(kinds * 2, kinds * 2, lambda x, y: [x // y, x % y], 64))
    assert text.count("rcp") == 1


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 900, 4096, 65535, 1000003])
@pytest.mark.parametrize("most", [0, 255, 1 << 15, (1 << 22) - 1, (1 << 31) - 1])
def test_a_division_by_a_constant_is_exact(divisor, most):
    """The same numbers as the instructions compute, at each end of each step."""
    from treadle.render.ir3_division import divide_by_constant

    steps = (k * divisor + d for k in (1, 2, 5, most // divisor) for d in (-1, 0, 1))
    numbers = sorted({0, most, *(min(most, max(0, step)) for step in steps)})
    machine = _Machine()
    for number in numbers:
        short = divide_by_constant(machine, f"0x{number:x}", divisor, most)
        if short is None:
            assert most >= 1 << 22
            return
        quotient, rest = (int(value, 16) for value in short)
        assert (quotient, rest) == divmod(number, divisor)


class _Machine:
    """Computes an instruction instead of printing it."""

    def emit(self, op, *sources, half=False):
        a, *more = (int(value, 16) for value in sources)
        single = lambda bits: np.uint32(bits).view(np.float32)
        bits = lambda value: int(np.float32(value).view(np.uint32))
        signed = lambda value: value - (1 << 32) if value >> 31 else value
        result = {
            "shr.b": lambda: a >> more[0], "and.b": lambda: a & more[0],
            "mul.u24": lambda: a * more[0], "sub.u": lambda: a - more[0],
            "mad.s24": lambda: signed(a) * signed(more[0]) + more[1],
            "cov.u32f32": lambda: bits(a), "cov.f32u32": lambda: int(single(a)),
            "add.f": lambda: bits(single(a) + single(more[0])),
            "mul.f": lambda: bits(single(a) * single(more[0])),
        }[op]()  # fmt: skip
        return f"0x{result & 0xFFFFFFFF:x}"

    def multiply(self, a, b):
        return f"0x{int(a, 16) * int(b, 16) & 0xFFFFFFFF:x}"


def test_what_adreno_does_not_have_is_refused_by_name():
    lane = Node(Op.WORK_ITEM, dtypes.int32, (), VarArg("lane", 0, 63))
    kinds = [dtypes.int32]
    with pytest.raises(InternalError, match="no lane of a subgroup"):
        compiled(elementwise(kinds, kinds, lambda x: [x + lane], 64))


def test_a_phase_needs_no_more_than_its_text():
    """Two texts of one program are the same: nothing depends on the order of sets."""
    kinds = [dtypes.float32, dtypes.int32]
    ast = elementwise(kinds, kinds, lambda x, y: [x + 1, y * 3], 256, 4, 32)
    assert compiled(ast) == compiled(ast)
    assert len(lowered(opened(), ast).phases) == 1


def test_a_gated_load_of_what_is_written_goes_around_it():
    """Element 0 in its place may be what another work item is writing."""
    kind = dtypes.float32
    at, ranges = loops(64, 1, 32)
    memory, other = param(0, kind, 64), param(1, kind, 64)
    gate = at < 40
    for source_, branches in ((memory, True), (other, False)):
        loaded = load(source_, at, gate, Node.const(kind, 7.0))
        store = Node(Op.STORE, dtypes.void, (memory, at, loaded))
        text, _ = compiled(Node.sink([Node(Op.END, dtypes.void, (store, *ranges), 1)]))
        assert ("  if " in text) == branches
