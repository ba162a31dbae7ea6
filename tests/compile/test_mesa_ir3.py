"""Mesa's compiler beside ours: the same kernels give the same bits, and ours are no longer.

Both get the text that render/ir3 prints. What they make of it runs on the emulated shader
processors, which fault for a register that is read too soon.
"""

import importlib.metadata
import re

import numpy as np
import pytest
from tests.compile.adreno import Phase
from tests.emulate.judges import judge

from treadle import Context, Tensor
from treadle.compile import nir
from treadle.compile.ir3 import IR3Compiler
from treadle.compile.mesa_ir3 import MesaIR3Compiler
from treadle.emulate.ir3.decode import decode
from treadle.emulate.kgsl import chips
from treadle.errors import DeviceError, InternalError
from treadle.ir3_object import unpack
from treadle.runtime.base import Entry, Slot
from treadle.target import ADRENO_CHIPS, adreno_target

COUNT = 64
HEAD = f"kernel k work_items={COUNT} buffers=4 variables=1 shared=1024\n"
INPUTS = """
mov.u32u32 %1, r0.x
vector %2 2
mov.u32u32 %2.0, c0.x
mov.u32u32 %2.1, c0.y
vector %3 2
mov.u32u32 %3.0, c0.z
mov.u32u32 %3.1, c0.w
vector %4 2
mov.u32u32 %4.0, c1.x
mov.u32u32 %4.1, c1.y
vector %5 2
mov.u32u32 %5.0, c1.z
mov.u32u32 %5.1, c1.w
ldg.a.u32 %11, %2:2, %1, 0, 0, 1
ldg.a.u32 %12, %3:2, %1, 0, 0, 1
ldg.a.u32 %13, %4:2, %1, 0, 0, 1
"""
STORE = "stg.a.u32 %5:2, %20, %1, 0, 0, 1\n"


@pytest.fixture(autouse=True)
def mesa(monkeypatch):
    """Mesa's library, where `.ci/judges` puts it."""
    path = judge("tinymesa") / "tinymesa" / "libtinymesa.so"
    monkeypatch.setenv("MESA_LIBRARY", str(path))


def compilers(chip="a630"):
    return [make(adreno_target(chip)) for make in (IR3Compiler, MesaIR3Compiler)]


def both(body, *inputs, variable=7, rows=1):
    """What a kernel of each compiler writes, so many numbers for each work item."""
    held = [np.resize(np.asarray(a), COUNT).astype(np.uint32) for a in inputs]
    held += [np.zeros(COUNT, np.uint32)] * (3 - len(held))
    found = []
    for compiler in compilers():
        (code,) = unpack(compiler.compile(HEAD + INPUTS + body + (STORE if rows == 1 else "")))
        out = np.full(rows * COUNT, 0xDEADBEEF, np.uint32)
        arrays = [*held, out]
        slots = tuple(Slot(n, a.nbytes, n == 3) for n, a in enumerate(arrays))
        Phase(code, Entry("k", 1, COUNT, slots, (0,)), chips.chip("a630")).run(
            [a.ctypes.data for a in arrays], [variable]
        )
        found.append(out)
    return found


def agree(*arguments, **options):
    ours, theirs = both(*arguments, **options)
    np.testing.assert_array_equal(ours, theirs)
    return ours


EDGES = np.array([0, 1, 2, 3, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000, 0x8000],
                 np.uint32)  # fmt: skip
FLOATS = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 1e10, -1e-10, np.inf, -np.inf, np.nan, 0.1],
                  np.float32).view(np.uint32)  # fmt: skip
A, B = np.repeat(EDGES, 12)[:144:2], np.tile(EDGES, 12)[1::2]
X, Y = np.repeat(FLOATS, 12)[:144:2], np.tile(FLOATS, 12)[1::2]
SMALL = np.arange(COUNT, dtype=np.uint32) * 77

INTEGERS = [
    "clz.b %20, %11", "add.u %20, %11, %12", "sub.u %20, %11, %12", "min.u %20, %11, %12",
    "min.s %20, %11, %12", "max.u %20, %11, %12", "max.s %20, %11, %12", "and.b %20, %11, %12",
    "or.b %20, %11, 0x12345", "xor.b %20, %11, c2.x", "mull.u %20, %11, %12",
    "shl.b %20, %11, %12", "shr.b %20, %11, %12", "ashr.b %20, %11, 5",
    "madsh.m16 %20, %11, %12, %11", "sel.b32 %20, %11, %12, 3",
    *(f"cmps.{k}.{c} %20, %11, %12" for k in "us" for c in ("lt", "le", "gt", "ge", "eq", "ne")),
    "cov.u32u16 %h30, %11\ncov.u16u32 %20, %h30", "cov.u32u16 %h30, %11\ncov.s16s32 %20, %h30",
    "cov.u32f32.even %20, %11", "cov.s32f32.even %20, %11",
    "cov.u32u16 %h30, %11\ncov.u32u16 %h31, %12\nmov.u16u16 %h32, 0x1234\n"  # noqa: ISC004
    "sel.b16 %h33, %h30, %h31, %h32\ncov.u16u32 %20, %h33",
]  # fmt: skip
REALS = [
    "add.f %20, %11, %12", "add.f %20, %11, (neg)%12", "mul.f %20, %11, 0x40490fdb",
    "absneg.f %20, (neg)(abs)%11", "floor.f %20, %11", "ceil.f %20, %11", "rndne.f %20, %11",
    "trunc.f %20, %11", "mad.f32 %20, %11, (neg)%12, 0x3f800000", "rcp %20, %11",
    "sqrt %20, (abs)%11", *(f"cmps.f.{c} %20, %11, %12" for c in ("lt", "le", "gt", "ge", "eq", "ne")),  # noqa: E501
    "cov.f32f16.even %h30, %11\ncov.f16f32 %20, %h30",
]  # fmt: skip


def differing(lines, *inputs, kind=np.uint32):
    """The lines whose results are not the same, all in one kernel; each has registers of its own.

    Results are compared as numbers of a kind; those of comparisons are whole ones.
    """
    body = ""
    for number, line in enumerate(lines):
        line = re.sub(r"%(h?)(2|3)(\d)", rf"%\g<1>{number + 1}\2\3", line)
        body += f"{line}\nstg.a.u32 %5:2, %{number + 1}20, %1, 0, 0x0, 1\nadd.u %1, %1, {COUNT}\n"
    rows = [made.reshape(len(lines), COUNT) for made in both(body, *inputs, rows=len(lines))]
    return [
        line
        for line, ours, theirs in zip(lines, *rows, strict=True)
        if not np.array_equal(*(
            (ours, theirs) if line.startswith("cmps") else (ours.view(kind), theirs.view(kind))
        ), equal_nan=kind is np.float32 and not line.startswith("cmps"))
    ]  # fmt: skip


def test_operations_of_integers_give_the_same_bits():
    assert differing(INTEGERS, A, B) == []


def test_operations_of_floats_give_the_same_numbers():
    assert differing(REALS, X, Y, kind=np.float32) == []


def test_operations_of_small_integers_give_the_same_bits():
    lines = ["mul.u24 %20, %11, %12", "mul.s24 %20, %11, %12", "mad.s24 %20, %11, %12, %11",
             "cov.u32f32 %30, %11\ncov.f32u32 %20, %30",
             "cov.u32f32 %30, %11\ncov.f32s32 %20, %30"]  # fmt: skip
    assert differing(lines, SMALL, SMALL[::-1]) == []


def test_loops_and_conditions_nest():
    found = agree(
        "mov.u32u32 %20, 0\nmov.u32u32 %30, 0\nloop\nand.b %31, %30, 1\nif %31\n"
        "mov.u32u32 %32, 0\nloop\nadd.u %20, %20, %11\nadd.u %32, %32, 1\n"
        "cmps.u.lt %33, %32, %12\nwhile %33\nend\nadd.u %30, %30, 1\ncmps.u.lt %34, %30, 5\n"
        "while %34\n",
        SMALL, np.arange(COUNT) % 4 + 1,
    )  # fmt: skip
    np.testing.assert_array_equal(found, SMALL * (np.arange(COUNT) % 4 + 1) * 2)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_shared_and_global_memory_hold_elements_of_each_size(bits):
    step, half = bits // 8, "" if bits == 32 else "h"
    there = "mov.u32u32 %30, %11\n" if bits == 32 else "cov.u32u16 %h30, %11\n"
    back = "mov.u32u32 %20, %33\n" if bits == 32 else "cov.u16u32 %20, %h33\n"
    found = agree(
        f"{there}mul.u24 %31, %1, {step}\nstl.u{bits} %31, %{half}30, 64, 1\nfence.r.w\nbar.g\n"
        f"xor.b %32, %31, {step}\nldl.u{bits} %{half}33, %32, 64, 1\n{back}"
        f"add.u %20, %20, 1\n",
        SMALL,
    )  # fmt: skip
    want = SMALL.reshape(-1, 2)[:, ::-1].reshape(-1) & (1 << bits) - 1
    np.testing.assert_array_equal(found, want + 1)
    far = agree(
        f"ldg.u{bits} %{half}33, %2:2, {2 * step}, 1\n{back}stg.u{bits} %5:2, %{half}33, 4, 1\n",
        SMALL,
    )
    raw = SMALL.view(f"u{step}")[2]
    assert (far == raw).all()


def test_vectors_are_loaded_and_stored():
    body = (
        "vector %30 4\nldg.u32 %30:4, %2:2, 16, 4\nadd.u %20, %30.0, %30.3\nvector %40 2\n"
        "mov.u32u32 %40.0, %20\nmov.u32u32 %40.1, %30.1\nshl.b %41, %1, 3\n"
        "stl.u32 %41, %40:2, 0, 2\nvector %42 2\nldl.u32 %42:2, %41, 0, 2\n"
        "add.u %20, %42.0, %42.1\n"
    )
    assert (agree(body, SMALL) == SMALL[4] + SMALL[7] + SMALL[5]).all()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("what %20, %11\n", "'what %20, %11': no instruction what"),
        ("add.u 3, %11, %12\n", "the result is no virtual register"),
        ("loop\n", "a loop or a condition is not closed"),
        ("add.u %20, r7.x, 1\n", "register 28 is none that a kernel starts with"),
        ("ldg.u32 %20, %11, 0, 1\n", "an address is no pair of registers"),
        ("end\n", "there is no open if"),
        ("add.u %20, %11\n", "1 operands for iadd, which takes 2"),
        ("cmps.u.what %20, %11, %12\n", "no instruction cmps.u.what"),
    ],
)
def test_a_text_that_is_none_is_an_error_that_names_the_line_and_the_file(body, why):
    with pytest.raises(InternalError, match=rf"saved as .*\): .*{re.escape(why)}"):
        compilers()[1].compile(HEAD + INPUTS + body)


def test_a_text_without_a_kernel_is_an_error():
    with pytest.raises(InternalError, match="no kernel before 'add"):
        compilers()[1].compile("add.u %1, %2, %3\n")


@pytest.mark.parametrize("chip", ADRENO_CHIPS)
def test_mesa_compiles_for_each_chip(chip):
    ours, theirs = (unpack(one.compile(HEAD + INPUTS + "add.u %20, %11, %12\n" + STORE))
                    for one in compilers(chip))  # fmt: skip
    assert [one.name for one in ours] == [one.name for one in theirs]
    assert decode(theirs[0].code[0]).text


# -- lengths


def length(code):
    """Instructions with the nops in them, as Mesa counts them."""
    total = 0
    for word in code:
        text = decode(word).text
        total += 1 + sum(int(n) for n in re.findall(r"\((?:rpt|nop)(\d)\)", text))
        if text.endswith("end"):
            return total
    raise AssertionError("no end")


KERNELS = {
    "matmul 256": lambda zeros: zeros(256, 256) @ zeros(256, 256),
    "matmul with borders": lambda zeros: zeros(100, 70) @ zeros(70, 90),
    "matmul transposed": lambda zeros: zeros(128, 64) @ zeros(128, 64).T,
    "matmul 1024": lambda zeros: zeros(1024, 512) @ zeros(512, 1024),
    "matmuls": lambda zeros: zeros(8, 64, 32) @ zeros(8, 32, 64),
    "matrix times vector": lambda zeros: zeros(512, 512) @ zeros(512),
    "convolution 3 x 3": lambda zeros: zeros(1, 16, 32, 32).conv2d(zeros(32, 16, 3, 3)),
    "convolution 1 x 1": lambda zeros: zeros(1, 64, 28, 28).conv2d(zeros(64, 64, 1, 1)),
    "convolution by steps": lambda zeros: zeros(1, 3, 33, 33).conv2d(zeros(16, 3, 3, 3), stride=2),
    "convolution padded": lambda zeros: zeros(2, 8, 16, 16).conv2d(zeros(8, 8, 3, 3), padding=1).relu(),  # noqa: E501
    "convolution by channels": lambda zeros: zeros(1, 32, 16, 16).conv2d(
        zeros(32, 1, 3, 3), groups=32
    ),
}  # fmt: skip


# With IMAGE=1 some of these programs' kernels read textures, and others write them.
IMAGE_KERNELS = {
    "matmul": lambda zeros: (zeros(64, 64) + 1).contiguous() @ (zeros(64, 64) + 1).contiguous(),
    "matmul with borders": lambda zeros: (zeros(36, 20) + 1).contiguous() @ (zeros(20, 12) + 1).contiguous(),  # noqa: E501
    "matmul transposed": lambda zeros: (zeros(64, 32) + 1).contiguous() @ (zeros(64, 32) + 1).contiguous().T,  # noqa: E501
    "matrix times vector": lambda zeros: (zeros(64, 64) + 1).contiguous() @ (zeros(64) + 1).contiguous(),  # noqa: E501
    "convolution 3 x 3": lambda zeros: (zeros(1, 16, 16, 16) + 1).contiguous().conv2d((zeros(16, 16, 3, 3) + 1).contiguous()),  # noqa: E501
    "convolution 1 x 1": lambda zeros: (zeros(1, 32, 8, 8) + 1).contiguous().conv2d((zeros(32, 32, 1, 1) + 1).contiguous()),  # noqa: E501
    "convolution padded": lambda zeros: (zeros(2, 8, 8, 8) + 1).contiguous().conv2d((zeros(8, 8, 3, 3) + 1).contiguous(), padding=1).relu(),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGE_KERNELS)
def test_our_code_for_images_is_at_most_1_3_times_as_long_as_mesas(name, monkeypatch):
    with Context(IMAGE=1):
        texts = texts_of(lambda zeros: IMAGE_KERNELS[name](zeros).contiguous() + 1, monkeypatch)
    assert any("isam" in text for text in texts)
    assert any("stib" in text for text in texts)
    check_lengths(texts)


@pytest.mark.parametrize("name", KERNELS)
def test_our_code_is_at_most_1_3_times_as_long_as_mesas(name, monkeypatch):
    check_lengths(texts_of(KERNELS[name], monkeypatch))


def texts_of(program, monkeypatch):
    """The texts of a program's kernels."""
    texts, real = [], IR3Compiler.compile

    def compile_(self, text):
        texts.append(text)
        return real(self, text)

    def on_adreno(*shape):
        return Tensor(np.zeros(shape, np.float32), device="NULL:0:ADRENO:a630").realize()

    with monkeypatch.context() as patch:
        patch.setattr(IR3Compiler, "compile", compile_)
        program(on_adreno).realize()
    return texts


def check_lengths(texts):
    """Those of the kernels of texts, whose code both compilers make."""
    assert texts
    for text in texts:
        for ours, theirs in zip(*(unpack(one.compile(text)) for one in compilers()), strict=True):
            assert length(ours.code) <= 1.3 * length(theirs.code), ours.name


# -- a library that is not there


def test_a_package_that_is_missing_is_told_of_with_what_mends_it(monkeypatch):
    monkeypatch.delenv("MESA_LIBRARY")
    monkeypatch.setattr(nir.importlib.util, "find_spec", lambda name: None)
    told = r"the package tinymesa is missing; `pip install tinymesa==25\.2\.7\.2` brings it"
    assert re.match(told, compilers()[1].available())
    with pytest.raises(DeviceError, match=told):
        compilers()[1].compile(HEAD)


def test_another_version_is_refused(monkeypatch):
    monkeypatch.delenv("MESA_LIBRARY")
    found = type("Spec", (), {"origin": "/nowhere/tinymesa/__init__.py"})
    monkeypatch.setattr(nir.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "26.1.0.1")
    with pytest.raises(DeviceError, match=r"tinymesa 26.1.0.1 is not Mesa 25.2.7"):
        nir.library()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "25.2.7.9")
    with pytest.raises(DeviceError, match=r"Mesa's library does not load: .*/nowhere/tinymesa"):
        nir.library()


def test_what_is_no_library_of_mesas_is_refused(monkeypatch, tmp_path):
    (tmp_path / "lib.so").write_bytes(b"no library")
    monkeypatch.setenv("MESA_LIBRARY", str(tmp_path / "lib.so"))
    assert compilers()[1].available().startswith("Mesa's library does not load")
