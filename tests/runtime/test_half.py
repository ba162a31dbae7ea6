"""Soft conversions to and from half and bfloat16 agree with NumPy and ml_dtypes bit for bit."""

import ml_dtypes
import numpy as np
import pytest

from treadle.compile import LLVMCompiler
from treadle.runtime.cpu import CpuDevice, Entry, Launch, Phase
from treadle.target import host_target, parse_target

pytestmark = pytest.mark.skipif(
    host_target().arch != "x86_64", reason="AArch64 converts halves natively"
)

CONVERT = """
define void @convert(ptr %args, ptr %vars, i64 %begin, i64 %end) {{
entry:
  %to = load ptr, ptr %args
  %slot = getelementptr ptr, ptr %args, i64 1
  %from = load ptr, ptr %slot
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %pf = getelementptr {source}, ptr %from, i64 %i
  %x = load {source}, ptr %pf
  %y = {how} {source} %x to {target}
  %pt = getelementptr {target}, ptr %to, i64 %i
  store {target} %y, ptr %pt
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}}
"""


def convert(values, source, target, how, out_type):
    arch = parse_target("x86-64-v2")  # it has none of the instructions
    compiler = LLVMCompiler(arch)
    cpu = CpuDevice("CPU", arch, compiler.compile, threads=1)
    code = compiler.compile(CONVERT.format(source=source, target=target, how=how))
    library = cpu.load(code, [Entry("convert", 1)])
    assert library.needs is not None
    out = np.zeros(values.shape, out_type)
    launch = Launch(
        [Phase(library.address("convert"), values.size, values.size)],
        [out.ctypes.data, values.ctypes.data],
    )
    cpu.run([launch])
    return out


def floats(bits):
    """Random bit patterns, and each neighbourhood where the narrowing changes its mind."""
    unsigned, floating = (np.uint32, np.float32) if bits == 32 else (np.uint64, np.float64)
    random = np.random.default_rng(0)
    patterns = random.integers(0, 2**bits, 200_000, dtype=unsigned, endpoint=False)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(floating)
    edges = np.concatenate([finite, (finite + np.roll(finite, 1)) / 2])
    near = [np.nextafter(edges, floating(to)) for to in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519, 65520, 65536, 1e-8, 6e-8])
    normal = random.standard_normal(50_000) * 10.0 ** random.integers(-9, 6, 50_000)
    return np.concatenate(
        [patterns.view(floating), edges, *near, special.astype(floating), normal.astype(floating)]
    )


def same(ours, expected):
    nan = np.isnan(expected.astype(np.float64))
    assert np.array_equal(np.isnan(ours.astype(np.float64)), nan)
    assert np.array_equal(ours[~nan].view(np.uint16), expected[~nan].view(np.uint16))


@pytest.mark.parametrize(("bits", "source"), [(32, "float"), (64, "double")])
@pytest.mark.parametrize(
    ("target", "out_type"), [("half", np.float16), ("bfloat", ml_dtypes.bfloat16)]
)
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid")
def test_narrowing_rounds_to_nearest_even(bits, source, target, out_type):
    values = floats(bits)
    ours = convert(values, source, target, "fptrunc", out_type)
    if (bits, target) == (64, "bfloat"):
        expected = rounded_once_to_bfloat16(values)
    else:
        expected = values.astype(out_type)
    same(ours, expected)


def rounded_once_to_bfloat16(values):
    """ml_dtypes rounds a double to float first; rounding that to odd makes the second exact."""
    narrow = values.astype(np.float32)
    bits = narrow.view(np.uint32).copy()
    inexact = (narrow.astype(np.float64) != values) & np.isfinite(values)
    too_big = np.abs(narrow.astype(np.float64)) > np.abs(values)
    bits -= (inexact & too_big).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return bits.view(np.float32).astype(ml_dtypes.bfloat16)


def test_widening_is_exact_for_every_half():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    ours = convert(halves, "half", "float", "fpext", np.float32)
    nan = np.isnan(halves)
    assert np.array_equal(np.isnan(ours), nan)
    assert np.array_equal(
        ours[~nan].view(np.uint32), halves[~nan].astype(np.float32).view(np.uint32)
    )
