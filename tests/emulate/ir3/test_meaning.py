"""What operations mean: the emulator beside Mesa, which folds the same operations of constants."""

import numpy as np
import pytest
from tests.emulate.ir3.conftest import NOPS
from tests.emulate.ir3.tinymesa import evaluate
from tests.emulate.ir3.words import mov, word

COUNT = 512
R1, R2, R3, R5 = 4, 8, 12, 20
LT, GE, EQ, NE = 0, 3, 4, 5
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF,
          0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 31, 32)  # fmt: skip
_FLOATS = (0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.5, -2.5, 3.5, 65504.0, 65520.0, 1e-3, -7.25,
           16777217.0, 2147483520.0, -2147483648.0, np.inf, -np.inf, np.nan)  # fmt: skip

# A form with its fields, Mesa's name, and how many sources it has.
INTEGERS = [
    ("add.u", {}, "iadd", 2), ("sub.u", {}, "isub", 2), ("add.s", {}, "iadd", 2),
    ("min.u", {}, "umin", 2), ("max.u", {}, "umax", 2), ("min.s", {}, "imin", 2),
    ("max.s", {}, "imax", 2), ("and.b", {}, "iand", 2), ("or.b", {}, "ior", 2),
    ("xor.b", {}, "ixor", 2), ("not.b", {}, "inot", 1),
    ("shl.b", {}, "ishl", 2), ("shr.b", {}, "ushr", 2), ("ashr.b", {}, "ishr", 2),
    ("add.u", {"SAT": 1}, "uadd_sat", 2), ("add.s", {"SAT": 1}, "iadd_sat", 2),
    ("sub.u", {"SAT": 1}, "usub_sat", 2), ("sub.s", {"SAT": 1}, "isub_sat", 2),
    ("add.s", {"EI": 1}, "ihadd", 2), ("add.u", {"EI": 1}, "uhadd", 2),
    ("absneg.s", {"SRC1": R1 | 1 << 14}, "ineg", 1),
    ("absneg.s", {"SRC1": R1 | 2 << 14}, "iabs", 1),
]  # fmt: skip
WIDE = [
    ("mul.s24", {}, "imul24", 2), ("mul.u24", {}, "umul24", 2), ("mull.u", {}, "umul_low", 2),
    ("bfrev.b", {}, "bitfield_reverse", 1), ("clz.b", {}, "ufind_msb_rev", 1),
    ("clz.s", {}, "ifind_msb_rev", 1),
]  # fmt: skip
THREE = [
    ("mad.s24", {}, "imad24_ir3"), ("mad.u24", {}, "umad24"),
    ("sad.s32", {}, "iadd3"), ("dp4acc", {}, "udot_4x8_uadd"),
    ("dp4acc", {"SRC_SIGN": 1}, "sudot_4x8_iadd"),
    ("dp4acc", {"SAT": 1, "SRC_SIGN": 1}, "sudot_4x8_iadd_sat"),
]  # fmt: skip
SHIFTS = ["shrm", "shlm", "shrg", "shlg", "andg"]
COMPARISONS = [
    *(("cmps.s", how, name) for how, name in
      ((LT, "ilt"), (GE, "ige"), (EQ, "ieq"), (NE, "ine"))),
    ("cmps.u", LT, "ult"), ("cmps.u", GE, "uge"),
]  # fmt: skip
FLOATS = [
    ("add.f", {}, "fadd", 2), ("mul.f", {}, "fmul", 2), ("min.f", {}, "fmin", 2),
    ("max.f", {}, "fmax", 2), ("sign.f", {}, "fsign", 1), ("floor.f", {}, "ffloor", 1),
    ("ceil.f", {}, "fceil", 1), ("trunc.f", {}, "ftrunc", 1), ("rndne.f", {}, "fround_even", 1),
    ("absneg.f", {"SRC1": R1 | 1 << 14}, "fneg", 1),
    ("absneg.f", {"SRC1": R1 | 2 << 14}, "fabs", 1), ("add.f", {"SAT": 1}, "fsat of fadd", 2),
]  # fmt: skip
FLOAT_COMPARISONS = [(LT, "flt"), (GE, "fge"), (EQ, "feq"), (NE, "fneu")]
FUNCTIONS = [("rcp", "frcp"), ("rsq", "frsq"), ("log2", "flog2"), ("exp2", "fexp2"),
             ("sin", "fsin"), ("cos", "fcos"), ("sqrt", "fsqrt")]  # fmt: skip
EVEN, UP, DOWN = 1, 2, 3
CONVERSIONS = [  # the types of cov, how it rounds, Mesa's name and size of source
    ("f32f16", EVEN, "f2f16_rtne", 32), ("f32f16", 0, "f2f16_rtz", 32), ("f16f32", 0, "f2f32", 16),
    ("f32s32", 0, "f2i32", 32), ("f32u32", 0, "f2u32", 32), ("f16s32", 0, "f2i32", 16),
    ("f16s16", 0, "f2i16", 16), ("f32s16", 0, "f2i16", 32), ("s32f32", EVEN, "i2f32", 32),
    ("u32f32", EVEN, "u2f32", 32), ("s16f32", 0, "i2f32", 16), ("u16f16", EVEN, "u2f16", 16),
    ("s16f16", EVEN, "i2f16", 16), ("u32u16", 0, "u2u16", 32), ("u16u32", 0, "u2u32", 16),
    ("s16s32", 0, "i2i32", 16), ("s32s16", 0, "i2i16", 32),
]  # fmt: skip


def _integers(seed):
    numbers = np.random.default_rng(seed).integers(0, 1 << 32, COUNT, dtype=np.uint32)
    small = np.random.default_rng(seed + 9).integers(0, 300, COUNT // 4, dtype=np.uint32)
    numbers[: COUNT // 4] = small
    numbers[-(len(_EDGES) ** 2) :] = (
        np.array(_EDGES, np.uint32).repeat(len(_EDGES))
        if (seed == 1)
        else np.tile(np.array(_EDGES, np.uint32), len(_EDGES))
    )
    return numbers


def _floats(seed, most=1e6):
    """Floats, none of which is too small for float32's exponent, nor a sum of two."""
    rng = np.random.default_rng(seed)
    numbers = (rng.standard_normal(COUNT) * np.exp2(rng.uniform(-8, np.log2(most), COUNT))).astype(
        np.float32
    )
    edges = np.array(_FLOATS, np.float32)
    ordered = edges.repeat(len(edges)) if seed == 1 else np.tile(edges, len(edges))
    numbers[-len(ordered) :] = ordered
    return numbers


def _half(register, source):
    """Words that make a half register of the low bits of a full one."""
    return [mov(register, source, "u32u16"), NOPS]


def _full(register, source):
    return [NOPS, word("nop", SS=1), mov(register, source, "u16u32")]


H1, H2, H3, H5 = 40, 41, 42, 43  # half registers: hr10.x and those behind it
HALVES = [*_half(H1, R1), *_half(H2, R2), *_half(H3, R3)]


def _two(name, fields, sources, is_half=False, **more):
    """Words of a form of cat2 with one or two sources, and the full register of the result."""
    registers = (H1, H2) if is_half else (R1, R2)
    given = dict(zip(("SRC1", "SRC2"), registers[:sources], strict=False))
    if is_half:
        fields = {
            key: H1 | value & ~0xFF if key == "SRC1" else value for key, value in fields.items()
        }
        words = [*HALVES, word(name, DST=H5, FULL=0, **(given | fields | more))]
        return [*words, *_full(R5, H5)], R5
    return [word(name, DST=R5, FULL=1, **(given | fields | more))], R5


def _folded(nir, bits, *inputs):
    """What Mesa folds to. Its sums that stay in range overflow in C: those are NumPy's."""
    if not nir.endswith("_sat"):
        return evaluate(nir, bits, *inputs)
    sign = nir[0]
    a, b = (x.astype(f"u{bits // 8}").view(f"{sign}{bits // 8}").astype(np.int64) for x in inputs)
    info = np.iinfo(f"{'' if sign == 'i' else 'u'}int{bits}")
    return np.clip(a + b if "add" in nir else a - b, info.min, info.max).view(np.uint64)


def _check(name, found, expected, bits=32):
    mask = np.uint64((1 << bits) - 1)
    wrong = np.flatnonzero((found.astype(np.uint64) ^ expected.astype(np.uint64)) & mask)
    assert not len(wrong), (
        f"{name}: {len(wrong)} of {len(found)} differ, first lane {wrong[0]}: "
        f"{found[wrong[0]]:#x}, and Mesa has {int(expected[wrong[0]] & mask):#x}"
    )


@pytest.mark.parametrize("bits", [32, 16])
def test_integers(machine, bits):
    rows = INTEGERS + (WIDE if bits == 32 else [("cbits.b", {}, "bit_count", 1)])
    inputs = [_integers(seed) for seed in (1, 2, 3)]
    pieces = [_two(name, fields, n, bits == 16) for name, fields, _, n in rows]
    given = [a & np.uint32((1 << bits) - 1) for a in inputs]
    for (name, _, nir, n), found in zip(rows, machine.values(pieces, inputs), strict=True):
        _check(f"{name} ({nir})", found, _folded(nir, bits, *given[:n]), bits)


@pytest.mark.parametrize("bits", [32, 16])
def test_comparisons(machine, bits):
    inputs = [_integers(seed) for seed in (1, 2, 3)]
    pieces = [_two(name, {}, 2, bits == 16, COND=how) for name, how, _ in COMPARISONS]
    given = [a & np.uint32((1 << bits) - 1) for a in inputs]
    for (name, _, nir), found in zip(COMPARISONS, machine.values(pieces, inputs), strict=True):
        _check(f"{name} ({nir})", found, evaluate(nir, bits, *given[:2]) & np.uint64(1), bits)


def test_three_sources(machine):
    inputs = [_integers(seed) for seed in (1, 2, 3)]
    pieces = [
        ([word(name, DST=R5, SRC1=R1, SRC2=R2, SRC3=R3, **fields)], R5) for name, fields, _ in THREE
    ]
    for (name, _, nir), found in zip(THREE, machine.values(pieces, inputs), strict=True):
        _check(f"{name} ({nir})", found, evaluate(nir, 32, *inputs))


def test_products_of_bytes_whose_sum_stays_in_range(machine):
    """Mesa takes the third source for a number with a sign here."""
    inputs = [_integers(seed) for seed in (1, 2, 3)]
    a, b, other = inputs
    products = sum(
        (a >> shift & 0xFF).astype(np.int64) * (b >> shift & 0xFF) for shift in range(0, 32, 8)
    )
    piece = [word("dp4acc", DST=R5, SRC1=R1, SRC2=R2, SRC3=R3, SAT=1)]
    (found,) = machine.values([(piece, R5)], inputs)
    _check("dp4acc", found, np.minimum(products + other, 0xFFFFFFFF))


def test_products_of_32_bits(machine):
    """As Mesa's compiler makes them of those of 16 bits: it folds these to something else."""
    words = [
        word("mull.u", DST=R5, FULL=1, SRC1=R1, SRC2=R2, NOP=3),
        word("madsh.m16", DST=R5, SRC1=R1, SRC2=R2, SRC3=R5, NOP=3),
        word("madsh.m16", DST=R5, SRC1=R2, SRC2=R1, SRC3=R5),
    ]
    inputs = [_integers(seed) for seed in (1, 2)]
    (found,) = machine.values([(words, R5)], inputs)
    _check("mull.u and madsh.m16", found, evaluate("imul", 32, *inputs))
    with np.errstate(over="ignore"):
        a, b = inputs
        half = (a & 0xFFFF) * (b & 0xFFFF) + ((a & 0xFFFF) * (b >> 16) << 16)
    (found,) = machine.values([(words[:2], R5)], inputs)
    _check("madsh.m16", found, half)


def test_shifts_with_a_mask(machine):
    value, amount, other = inputs = [_integers(seed) for seed in (1, 2, 3)]
    pieces = [([word(name, DST=R5, FULL=1, SRC1=R2, SRC2=R1, SRC3=R3)], R5) for name in SHIFTS]
    for name, found in zip(SHIFTS, machine.values(pieces, inputs), strict=True):
        expected = evaluate(f"{name}_ir3", 32, value, amount, other)
        _check(name, found, expected)


@pytest.mark.parametrize("bits", [32, 16])
def test_choice(machine, bits):
    inputs = [_integers(seed) for seed in (1, 2, 3)]
    if bits == 32:
        words = [word("sel.b32", DST=R5, SRC1=R1, SRC2=R2, SRC3=R3)]
    else:
        words = [*HALVES, word("sel.b16", DST=H5, SRC1=H1, SRC2=H2, SRC3=H3), *_full(R5, H5)]
    mask = np.uint32((1 << bits) - 1)
    a, b, other = (array & mask for array in inputs)
    (found,) = machine.values([(words, R5)], inputs)
    _check("sel.b", found, evaluate("bcsel", bits, b != 0, a, other), bits)


def _bits_of(floats, bits):
    """The bits of floats, rounded to halves where these have 16."""
    with np.errstate(over="ignore"):
        return floats.view(np.uint32) if bits == 32 else floats.astype(np.float16).view(np.uint16)


def _same_floats(name, found, expected, bits, ulp=0):
    """Bits are alike, or both are no numbers."""
    kind = (np.float16, np.uint16, np.int16) if bits == 16 else (np.float32, np.uint32, np.int32)
    a, b = (x.astype(kind[1]).view(kind[0]) for x in (found, expected))
    apart = np.abs(a.view(kind[2]).astype(np.int64) - b.view(kind[2]).astype(np.int64))
    wrong = np.flatnonzero(~(np.isnan(a) & np.isnan(b)) & (apart > ulp))
    assert not len(wrong), (
        f"{name}: {len(wrong)} differ, first lane {wrong[0]}: {a[wrong[0]]}, {b[wrong[0]]} of Mesa"
    )


@pytest.mark.parametrize("bits", [32, 16])
def test_floats(machine, bits):
    inputs = [_bits_of(_floats(seed), bits).astype(np.uint32) for seed in (1, 2, 3)]
    pieces = [_two(name, fields, n, bits == 16) for name, fields, _, n in FLOATS]
    pieces += [_two("cmps.f", {}, 2, bits == 16, COND=how) for how, _ in FLOAT_COMPARISONS]
    found = machine.values(pieces, inputs)
    for (name, _, nir, n), values in zip(FLOATS, found, strict=False):
        expected = evaluate(nir.split()[-1], bits, *inputs[:n])
        if nir.startswith("fsat"):  # a zero has any sign
            expected = evaluate("fsat", bits, expected) & np.uint64((1 << (bits - 1)) - 1)
        _same_floats(f"{name} ({nir})", values, expected, bits)
    for (_, nir), values in zip(FLOAT_COMPARISONS, found[len(FLOATS) :], strict=True):
        _check(nir, values, evaluate(nir, bits, *inputs[:2]) & np.uint64(1), bits)


def test_functions(machine):
    """Mesa folds these by the C library's functions of float32: an error of the last bit."""
    inputs = [np.abs(_floats(seed, 60.0)) for seed in (1, 2)]
    pieces = [([word(name, DST=R5, FULL=1, SRC=R1)], R5) for name, _ in FUNCTIONS]
    bits = inputs[0].view(np.uint32)
    for (name, nir), found in zip(FUNCTIONS, machine.values(pieces, inputs), strict=True):
        _same_floats(name, found, evaluate(nir, 32, bits), 32, ulp=1)


def test_conversions(machine):
    pieces, expected = [], []
    floats, integers = _floats(1, 60000.0), _integers(1)
    with np.errstate(invalid="ignore"):
        floats[~(np.abs(floats) < 32000)] = 0.25  # beyond its range an integer is Mesa's undefined
    for types, how, nir, bits in CONVERSIONS:
        of_float, is_half = types[0] == "f", bits == 16
        source = _bits_of(floats, bits).astype(np.uint32) if of_float else integers
        if nir == "f2u32":
            source = _bits_of(np.abs(floats), bits)
        words = [*_half(H1, R1), mov(H5 if types.endswith("16") else R5,
                                     H1 if is_half else R1, types, ROUND=how)]  # fmt: skip
        if types.endswith("16"):
            words += _full(R5, H5)
        mask = np.uint32((1 << bits) - 1)
        pieces.append((source, words))
        expected.append(evaluate(nir, bits, source & mask))
    for (types, how, nir, _), (source, words), wanted in zip(
        CONVERSIONS, pieces, expected, strict=True
    ):
        (found,) = machine.values([(words, R5)], [source])
        _check(f"cov.{types} {how} ({nir})", found, wanted, int(types[-2:]))
