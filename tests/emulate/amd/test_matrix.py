"""Matrix instructions beside NumPy, which finds elements where AMD's calculator says they lie."""

import itertools
import re
import struct
import tomllib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.thinning import chosen

from treadle.emulate.amd.matrix_layouts import unit_of
from treadle.target import CDNA4

from .conftest import compile_for, instructions

LAYOUTS = {
    (layout["architecture"], layout["wave"], name): layout
    for layout in tomllib.loads(Path(__file__).with_name("matrix_layouts.toml").read_text())[
        "layouts"
    ]
    for name in layout["instructions"]
}
ARCHITECTURES = {"gfx90a": "cdna2", "gfx942": "cdna3", "gfx1100": "rdna3", "gfx1201": "rdna4"}
SPARSE = ("smfmac", "swmmac")


class Layout:
    """Which element a lane holds: steps that bits of a lane's and of an element's number make."""

    def __init__(self, text):
        lanes, elements = (
            [tuple(map(int, s.split(","))) for s in part.split()] for part in text.split("|")
        )
        self._steps, self.lanes, self.count = (lanes, elements), 1 << len(lanes), 1 << len(elements)

    def place(self, lane, element):
        found = [0, 0, 0]
        for number, steps in zip((lane, element), self._steps, strict=True):
            for bit, step in enumerate(steps):
                if number >> bit & 1:
                    found = [a + b for a, b in zip(found, step, strict=True)]
        return tuple(found)

    def all(self):
        """Each place where an element lies: lane, element, and which it is."""
        for lane, element in itertools.product(range(self.lanes), range(self.count)):
            yield lane, element, self.place(lane, element)


class OfTarget:
    """The same of CDNA4, which the calculator does not know, by the target's maps."""

    def __init__(self, held, is_right):
        self._held, self._is_right = held, is_right

    def all(self):
        for lane, element in itertools.product(range(64), range(self._held.count)):
            line, other = self._held.place(lane, element)
            yield lane, element, (other, line, 0) if self._is_right else (line, other, 0)


# -- maps


@pytest.mark.parametrize("key", LAYOUTS, ids=lambda key: "-".join(map(str, key)))
def test_elements_lie_where_the_calculator_says(key):
    architecture, wave, name = key
    layout = {matrix: Layout(LAYOUTS[key][matrix]) for matrix in "ABDK" if matrix in LAYOUTS[key]}
    side = int(re.search(r"_(\d+)x", name)[1])
    blocks = layout["D"].lanes * layout["D"].count // side**2
    generation = {"cdna2": 9, "cdna3": 9, "rdna3": 11, "rdna4": 12}[architecture]
    unit = unit_of(name, generation, wave, blocks)
    for lane, element, (i, k, block) in layout["A"].all():
        if name.split("_")[1] in SPARSE:
            for second in range(2):
                assert unit.left(i, k // 2 + second, 0) == (lane, 2 * element + second)
                assert layout["K"].place(lane, element) == (i, k, 0)
        elif architecture != "rdna3" or lane < 16:  # other lanes have the same again
            assert unit.left(i, k, block) == (lane, element)
    for lane, element, (k, j, block) in layout["B"].all():
        if architecture != "rdna3" or lane < 16:
            assert unit.right(j, k, block) == (lane, element)
    for lane, element, place in layout["D"].all():
        assert unit.sums(*place) == (lane, element)


# -- products

HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare RESULT @llvm.amdgcn.NAME(TYPES)
define amdgpu_kernel void @k(ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc,
    ptr addrspace(1) %pk, ptr addrspace(1) %pd) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  LOADS
  %d = call RESULT @llvm.amdgcn.NAME(ARGUMENTS)
  %qd = getelementptr RESULT, ptr addrspace(1) %pd, i32 %i
  store RESULT %d, ptr addrspace(1) %qd, align 4
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="WAVE,WAVE" "target-features"="+wavefrontsizeWAVE" }
"""
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def bits_of(kind):
    """The bits of a type of LLVM's."""
    found = re.fullmatch(r"<(\d+) x (\w+)>", kind)
    count, one = (int(found[1]), found[2]) if found else (1, kind)
    return count * (_WIDTHS.get(one) or int(one[1:]))


def kernel(name, a, b, c, before, behind, wave, index=""):
    """A call on what each lane has of the matrices; `index` is the type of what picks of A."""
    loads, given = [], []
    kinds = {"a": a, "b": b, "c": c} | ({"k": index} if index else {})
    for letter, kind in kinds.items():
        loads.append(f"%q{letter} = getelementptr {kind}, ptr addrspace(1) %p{letter}, i32 %i")
        loads.append(f"%{letter} = load {kind}, ptr addrspace(1) %q{letter}, align 4")
        given += [before[letter]] if letter in before else []
        given.append(f"{kind} %{letter}")
    given += behind
    types = ", ".join(argument.rsplit(" ", 1)[0] for argument in given)
    text = HEAD.replace("LOADS", "\n  ".join(loads)).replace("ARGUMENTS", ", ".join(given))
    text = text.replace("TYPES", types).replace("NAME", name)
    return text.replace("RESULT", c).replace("WAVE", str(wave))


def mfma(chip):
    """Names, types and further arguments of a chip's MFMA intrinsics."""
    zero = ["i32 0"] * 3
    sums = {"32x32": {2: 32, 1: 16}, "16x16": {4: 16, 1: 4}, "4x4": {16: 4}}

    def each(kind, names, total="float", of="f32"):
        for name, blocks in names:
            side = "x".join(name.split("x")[:2])
            yield f"mfma.{of}.{name}", kind, kind, f"<{sums[side][blocks]} x {total}>", {}, zero

    small = lambda depths, word: zip(
        (f"{side}x{depth}{word}" for side, depth in zip(
            ("32x32", "16x16", "4x4", "32x32", "16x16"), depths, strict=True)),
        (2, 4, 16, 1, 1), strict=True,
    )  # fmt: skip
    yield from each("float", small((1, 1, 1, 2, 4), "f32"))
    yield from each("<4 x half>", small((4, 4, 4, 8, 16), "f16"))
    yield from each("<4 x i16>", small((4, 4, 4, 8, 16), "bf16.1k"))
    if chip == "gfx90a":
        yield from each("<2 x i16>", small((2, 2, 2, 4, 8), "bf16"))
        yield from each("i32", small((4, 4, 4, 8, 16), "i8"), "i32", "i32")
    else:
        yield from each("i32", list(small((4, 4, 4, 8, 16), "i8"))[:3], "i32", "i32")
        yield from each("i64", (("32x32x16.i8", 1), ("16x16x32.i8", 1)), "i32", "i32")
        for kinds in itertools.product(("fp8", "bf8"), repeat=2):
            word = ".".join(kinds)
            yield from each("i64", ((f"32x32x16.{word}", 1), (f"16x16x32.{word}", 1)))
    if chip == "gfx942":
        yield from each("<2 x float>", (("32x32x4.xf32", 1), ("16x16x8.xf32", 1)))
    yield "mfma.f64.16x16x4f64", "double", "double", "<4 x double>", {}, zero
    yield "mfma.f64.4x4x4f64", "double", "double", "double", {}, zero


def mfma_of_cdna4():
    """Those of gfx950 that are twice as deep as gfx942's."""
    zero = ["i32 0"] * 3
    for side, count in (("16x16", 4), ("32x32", 16)):
        deep = {"16x16": 32, "32x32": 16}[side]
        for kind, word in (("half", "f16"), ("bfloat", "bf16")):
            one = f"<8 x {kind}>"
            yield f"mfma.f32.{side}x{deep}.{word}", one, one, f"<{count} x float>", {}, zero
        for kinds in itertools.product(("fp8", "bf8"), repeat=2):
            name = f"mfma.f32.{side}x{deep}.{'.'.join(kinds)}"
            if kinds[0] == kinds[1]:
                yield name, "i64", "i64", f"<{count} x float>", {}, zero
        bytes_, total = "<4 x i32>", f"<{count} x i32>"
        yield f"mfma.i32.{side}x{2 * deep}.i8", bytes_, bytes_, total, {}, zero


def smfmac():
    """Those of gfx942 whose A is sparse."""
    keys = ["i32 0", "i32 1"]  # of what picks the second part
    for kind, word in (("half", "f16"), ("i16", "bf16")):
        for shape, count in (("16x16x32", 4), ("32x32x16", 16)):
            a, b = f"<4 x {kind}>", f"<8 x {kind}>"
            yield f"smfmac.f32.{shape}.{word}", a, b, f"<{count} x float>", {}, keys
    eights = [".".join(kinds) for kinds in itertools.product(("fp8", "bf8"), repeat=2)]
    for word, total, of in (("i8", "i32", "i32"), *((word, "float", "f32") for word in eights)):
        for shape, count in (("16x16x64", 4), ("32x32x32", 16)):
            yield (f"smfmac.{of}.{shape}.{word}", "<2 x i32>", "<4 x i32>", f"<{count} x {total}>",
                   {}, keys)  # fmt: skip


def wmma(chip, wave):
    """Those of RDNA; gfx12 has half as much of a factor in a lane of a wave of 64."""
    late = chip == "gfx1201"
    halves = 16 if not late else 256 // wave
    sums = 256 // wave
    typed = lambda count, kind: f"<{count} x {kind}>" if count > 1 else kind
    for kind, word in (("half", "f16"), ("i16", "bf16")):
        one = f"<{halves} x {kind}>"
        yield f"wmma.f32.16x16x16.{word}", one, one, f"<{sums} x float>", {}, []
        total = f"<{sums if late else 2 * sums} x {kind}>"
        yield f"wmma.{word}.16x16x16.{word}", one, one, total, {}, ["i1 false"]
        if not late:
            yield f"wmma.{word}.16x16x16.{word}", one, one, total, {}, ["i1 true"]
    shapes = [("16x16x16", 8, 16), ("16x16x16", 4, 16)] + ([("16x16x32", 4, 32)] if late else [])
    for shape, bits, depth in shapes:
        nbits = 16 * bits if not late else 16 * depth * bits // wave
        one = typed(max(1, nbits // 32), "i32")
        for clamp in ("i1 false", "i1 true"):
            yield (f"wmma.i32.{shape}.iu{bits}", one, one, f"<{sums} x i32>",
                   {"a": "i1 true", "b": "i1 false"}, [clamp])  # fmt: skip
    for kinds in itertools.product(("fp8", "bf8"), repeat=2) if late else ():
        one = typed(64 // wave, "i32")
        yield f"wmma.f32.16x16x16.{'.'.join(kinds)}", one, one, f"<{sums} x float>", {}, []


def swmmac(wave):
    """Those of gfx12 whose A is sparse."""
    sums, typed = 256 // wave, lambda count: f"<{count} x i32>" if count > 1 else "i32"
    for kind, word in (("half", "f16"), ("i16", "bf16")):
        a, b = f"<{256 // wave} x {kind}>", f"<{512 // wave} x {kind}>"
        for total, of in ((f"<{sums} x float>", "f32"), (f"<{sums} x {kind}>", word)):
            yield f"swmmac.{of}.16x16x32.{word}", a, b, total, {}, []
    for bits, depth in ((8, 32), (4, 32), (4, 64)):
        a, b = (typed(max(1, 16 * n * bits // wave // 32)) for n in (depth // 2, depth))
        yield (f"swmmac.i32.16x16x{depth}.iu{bits}", a, b, f"<{sums} x i32>",
               {"a": "i1 true", "b": "i1 false"}, ["i1 false"])  # fmt: skip
    for kinds in itertools.product(("fp8", "bf8"), repeat=2):
        a, b = typed(64 // wave), typed(128 // wave)
        yield f"swmmac.f32.16x16x32.{'.'.join(kinds)}", a, b, f"<{sums} x float>", {}, []


def cases():
    for chip in ("gfx90a", "gfx942"):
        yield from ((chip, 64, row) for row in mfma(chip))
    yield from (("gfx950", 64, row) for row in mfma_of_cdna4())
    yield from (("gfx942", 64, row) for row in smfmac())
    for wave in (32, 64):
        yield from (
            (chip, wave, row) for chip in ("gfx1100", "gfx1201") for row in wmma(chip, wave)
        )
        yield from (("gfx1201", wave, row) for row in swmmac(wave))


def named(case):
    chip, wave, (name, *_, behind) = case
    return f"{chip}-{wave}-{name}" + ("-" + behind[-1][3:] if behind[-1:] == ["i1 true"] else "")


# -- numbers


def formats(chip):
    small = ("e4m3fnuz", "e5m2fnuz") if chip == "gfx942" else ("e4m3fn", "e5m2")
    fp8, bf8 = (getattr(ml_dtypes, f"float8_{name}") for name in small)
    return {"f64": np.float64, "f32": np.float32, "xf32": np.float32, "f16": np.float16,
            "bf16": ml_dtypes.bfloat16, "fp8": fp8, "bf8": bf8, "i32": np.int32}  # fmt: skip


def drawn(rng, kind, shape):
    """Numbers that all floats have, or whole integers."""
    if kind[0] in "iu":
        bits = int(kind[1:])
        low = -(1 << bits - 1) if kind[0] == "i" else 0
        return rng.integers(low, low + (1 << bits), shape)
    return rng.integers(-2, 3, shape)


def bits_and_raw(chip, kind, values):
    """The bits of a kind, and its numbers as integers."""
    if kind[0] in "iu" and kind != "i32":
        bits = int(kind[1:])
        return bits, values & (1 << bits) - 1
    array = values.astype(formats(chip)[kind])
    bits = 8 * array.dtype.itemsize
    return bits, array.view(f"u{array.dtype.itemsize}").astype(np.uint64)


def packed(layout, raw, step, lane_bits, wave):
    """What each lane holds, as bytes: `raw` by row, column and block, `step` bits apart."""
    words = [0] * wave
    for lane, element, place in layout.all():
        words[lane] |= int(raw[place]) << element * step
    return b"".join(word.to_bytes(lane_bits // 8, "little") for word in words)


def picked(rng, a):
    """A sparse matrix as a whole one, and pairs of its numbers and of their places by group.

    Two of four neighbours stay, in order.
    """
    side, depth, _ = a.shape
    groups = a.reshape(side, depth // 4, 4)
    order = rng.permuted(np.tile(np.arange(4), (side, depth // 4, 1)), axis=-1)
    which = np.sort(order[..., :2])
    stored, whole = np.take_along_axis(groups, which, -1), np.zeros_like(groups)
    np.put_along_axis(whole, which, stored, -1)
    return whole.reshape(a.shape), stored, which


def by_group(pairs, bits):
    """Pairs of numbers of so many bits, by row and by the first k of their group."""
    both = pairs[..., 0].astype(object) | pairs[..., 1].astype(object) << bits
    return {(i, 4 * group, 0): value for (i, group), value in np.ndenumerate(both)}


class Product:
    """A case with its layouts, and what its name says."""

    def __init__(self, case):
        self.chip, self.wave, (self.name, self.a, self.b, self.c, self.before, self.behind) = case
        self.operation = self.index = ""
        self.is_sparse = self.name.startswith(SPARSE)
        _, self.total, shape, *kinds = self.name.split(".")
        side, _, depth, kind = re.fullmatch(r"(\d+)x(\d+)x(\d+)(\w*)", shape).groups()
        self.side, self.depth = int(side), int(depth)
        kinds = [kind or kinds[0], kind or kinds[-1]]
        if kinds[-1] == "1k":
            kinds = ["bf16"] * 2
        if kinds[0].startswith("iu"):
            kinds = [f"i{kinds[0][2:]}", f"u{kinds[0][2:]}"]
        self.kinds = kinds
        if self.is_sparse:  # its name is the instruction's
            self.picking = 4 * self.layouts(f"v_{self.name.replace('.', '_')}")["K"].count
            self.index = "i32" if self.name.startswith("smfmac") else f"i{self.picking}"

    def layouts(self, operation):
        if self.chip == "gfx950":
            unit = next(unit for unit in CDNA4.values() if unit.instruction == operation)
            held = {"A": unit.x, "B": unit.y, "D": unit.out}
            return {name: OfTarget(each, name == "B") for name, each in held.items()}
        known = LAYOUTS[ARCHITECTURES[self.chip], self.wave, operation]
        return {matrix: Layout(known[matrix]) for matrix in "ABDK" if matrix in known}

    def code(self, gpu):
        """The loaded kernel; its instruction is known from then on."""
        text = kernel(
            self.name, self.a, self.b, self.c, self.before, self.behind, self.wave, self.index
        )
        code = gpu.load(compile_for(self.chip, text))
        names = {item.operation for _, item in instructions(code[0], self.chip)}
        (self.operation,) = (
            name for name in names if re.match(r"v_(mfma|smfmac|wmma|swmmac)_", name)
        )
        return code

    @property
    def clamps(self):
        return self.total == "i32" and self.behind[-1:] == ["i1 true"]

    @property
    def is_high(self):
        """Whether sums are in the upper halves of registers."""
        return self.total in ("f16", "bf16") and self.behind == ["i1 true"]

    def sparse(self, rng, a, at):
        """A as a whole matrix, what lanes hold of it, and what picks from that."""
        whole, stored, which = picked(rng, a)
        bits, raw = bits_and_raw(self.chip, self.kinds[0], stored)
        sent = packed(at["A"], by_group(raw, bits), 2 * bits, bits_of(self.a), self.wave)
        # Where the instruction picks by the second part of a register, that is sent.
        shift = self.picking if self.name.startswith("smfmac") else 0
        codes = {place: code << shift for place, code in by_group(which, 2).items()}
        return whole, sent, packed(at["K"], codes, 4, bits_of(self.index), self.wave)


@pytest.mark.parametrize("case", [c for c in cases() if chosen(named(c), 12)], ids=named)
def test_products_are_what_numpy_says(machine, case):
    gpu, product, rng = machine(case[0]), Product(case), np.random.default_rng(len(named(case)))
    code = product.code(gpu)
    at, chip, wave = product.layouts(product.operation), product.chip, product.wave
    side, depth, total = product.side, product.depth, product.total
    blocks = 1 + max(place[2] for *_, place in at["D"].all())
    a = drawn(rng, product.kinds[0], (side, depth, blocks))
    b = drawn(rng, product.kinds[1], (depth, side, blocks))
    c = drawn(rng, total if total == "i32" else "f32", (side, side, blocks))
    picks = bytes(4)
    if product.is_sparse:
        a, sent, picks = product.sparse(rng, a, at)
    else:
        bits, raw = bits_and_raw(chip, product.kinds[0], a)
        sent = packed(at["A"], raw, bits, bits_of(product.a), wave)
    bits, raw = bits_and_raw(chip, product.kinds[1], b)
    other = packed(at["B"], raw, bits, bits_of(product.b), wave)
    bits, raw = bits_and_raw(chip, total, c)
    step = bits if chip == "gfx1201" else max(32, bits)
    low = 16 if product.is_high else 0
    sums = packed(at["D"], raw.astype(object) << low, step, bits_of(product.c), wave)
    places = [gpu.put(data) for data in (sent, other, sums, picks, bytes(len(sums)))]
    gpu.launch(code, "k", (1, 1, 1), (wave, 1, 1), struct.pack("<5Q", *places))
    data, found = gpu.space.read(places[4], len(sums)), np.zeros(c.shape)
    for lane, element, place in at["D"].all():
        start = (lane * bits_of(product.c) + element * step + low) // 8
        found[place] = np.frombuffer(data, formats(chip)[total], 1, start)[0]
    wanted = np.einsum("ikb,kjb->ijb", a, b) + c
    if total == "i32":
        limits = np.iinfo(np.int32)
        wanted = np.clip(wanted, limits.min, limits.max) if product.clamps else wanted.astype("i4")
    np.testing.assert_array_equal(found, wanted)


def source(lane, blgp):
    """The lane that B's element of a lane comes from."""
    return {0: lane, 1: lane % 32, 2: lane % 32 + 32, 3: (lane + 16) % 64}.get(
        blgp, lane % 16 + 16 * (blgp - 4)
    )


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(("cbsz", "abid", "blgp"), [(1, 1, 0), (2, 3, 3), (0, 0, 1), (0, 0, 2),
                                                    (2, 0, 6)])  # fmt: skip
def test_blocks_of_a_and_lanes_of_b_stand_for_others(machine, chip, cbsz, abid, blgp):
    fields = [f"i32 {field}" for field in (cbsz, abid, blgp)]
    case = chip, 64, ("mfma.f32.16x16x1f32", "float", "float", "<16 x float>", {}, fields)
    gpu, product, rng = machine(chip), Product(case), np.random.default_rng(blgp)
    code = product.code(gpu)
    at = product.layouts(product.operation)
    a, b = rng.integers(-3, 4, (2, 64)).astype(np.float32)  # what lanes have: an element each
    places = [gpu.put(array.tobytes()) for array in (a, b, np.zeros((64, 16), np.float32))]
    result = gpu.put(bytes(4096))
    gpu.launch(code, "k", (1, 1, 1), (64, 1, 1), struct.pack("<5Q", *places, places[2], result))
    blocks = np.zeros((2, 16, 4))
    for lane, _, (i, _, block) in at["A"].all():
        blocks[0, i, block] = a[lane]
    for lane, _, (_, j, block) in at["B"].all():
        blocks[1, j, block] = b[source(lane, blgp)]
    data = np.frombuffer(gpu.space.read(result, 4096), np.float32).reshape(64, 16)
    for lane, element, (i, j, block) in at["D"].all():
        first = block // (1 << cbsz) * (1 << cbsz) + abid
        assert data[lane, element] == blocks[0, i, first] * blocks[1, j, block]
