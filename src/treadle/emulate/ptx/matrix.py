"""The instructions on matrices that a warp holds together: ldmatrix, stmatrix, movmatrix, mma.sync.

Which lane holds which element is said by maps of `treadle.target`: `mma_fragments` for all shapes
of mma.sync, `LDMATRIX` for what moves matrices of 8 x 8 halves.

Products are exact and sums are made in float64, then rounded once: at least as right as hardware,
whose order and rounding of sums NVIDIA does not document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.ptx.eight_bits import from_byte
from treadle.emulate.ptx.emit import Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.floating import half_of_pair, join_pair, narrow, to_double, to_odd, widen
from treadle.emulate.ptx.machine import LANES
from treadle.emulate.ptx.memory import address_lanes, load, store
from treadle.emulate.ptx.syntax import Operand, Vector
from treadle.target import LDMATRIX, fragment, mma_fragments

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["ELEMENTS", "HANDLERS", "Shape", "element_of_word", "product", "registers_of"]

HANDLERS = Handlers()
_DOUBLES = float_lanes("f64")
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}
_HALVES = fragment("mk", "k4:2 m8", "k2")  # of one matrix that LDMATRIX brings


def registers_of(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


# -- moving halves between lanes


def _gather(e: Emitter, name: str, values: list[str], source: Callable[[int, int], int]) -> str:
    """Lanes of 32 bits whose half h of lane l is half `source(l, h)` of all values in a row."""
    for i, value in enumerate(values):
        e.do(f"store {lanes(32)} {value}, ptr {e.warp_field('tiles', 128 * i)}, align 64")
    places = ", ".join(f"i16 {source(lane, half)}" for lane in range(LANES) for half in range(2))
    table = e.need(
        f"places_{name}", f"@places_{name} = private constant [{2 * LANES} x i16] [{places}]"
    )
    function = e.need("gather_halves", _GATHER)
    tiles = e.warp_field("tiles")
    return e.op(f"call {lanes(32)} {function}(ptr {tiles}, ptr {table})")


_GATHER = """define internal <32 x i32> @gather_halves(ptr %from, ptr %places) noinline {
entry:
  %to = alloca <32 x i32>
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  %pi = getelementptr i16, ptr %places, i64 %n
  %i = load i16, ptr %pi
  %w = zext i16 %i to i64
  %px = getelementptr i16, ptr %from, i64 %w
  %x = load i16, ptr %px
  %po = getelementptr i16, ptr %to, i64 %n
  store i16 %x, ptr %po
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  %r = load <32 x i32>, ptr %to
  ret <32 x i32> %r
}
"""


def _half(register: int, lane: int, half: int) -> int:
    """The number of a half among those of several registers."""
    return (register * LANES + lane) * 2 + half


def _matrix_form(m: Modifiers) -> tuple[int, bool, str]:
    """(matrices, whether they are transposed, space) of ldmatrix and stmatrix."""
    m.type(("b16",))
    if not (m.flag("sync") and m.flag("aligned") and m.flag("m8n8")):
        raise m.fail()
    count = m.one_of(_MATRICES)
    space = m.one_of(("shared", "shared::cta"))
    if not count:
        raise m.fail("needs .x1, .x2 or .x4")
    return _MATRICES[count], m.flag("trans"), "shared" if space else "generic"


@HANDLERS.of("ldmatrix")
def _load_matrices(e: Emitter, item: Instruction, m: Modifiers) -> None:
    count, transposed, space = _matrix_form(m)
    result, address = item.operands
    # Lane 8 m + i has the address of row i of matrix m, eight halves.
    mask = e.op(f"and i32 {e.mask_bits}, {(1 << (8 * count)) - 1}")
    rows = load(e, space, address_lanes(e, address), 32, 4, mask)

    def straight(matrix: int) -> Callable[[int, int], int]:
        def source(lane: int, half: int) -> int:
            row, word = LDMATRIX.held.place(lane, 0)
            return _half(word, 8 * matrix + row, half)

        return source

    def across(matrix: int) -> Callable[[int, int], int]:
        def source(lane: int, half: int) -> int:
            row, column = _HALVES.place(lane, half)
            return _half(row // 2, 8 * matrix + column, row % 2)

        return source

    source, name = (across, "across") if transposed else (straight, "straight")
    for matrix, target in enumerate(registers_of(result)):
        e.write(target, _gather(e, f"load_{name}_{matrix}", rows, source(matrix)), 32)


@HANDLERS.of("stmatrix")
def _store_matrices(e: Emitter, item: Instruction, m: Modifiers) -> None:
    count, transposed, space = _matrix_form(m)
    address, source = item.operands
    values = [e.read(operand, 32) for operand in registers_of(source)]
    mask = e.op(f"and i32 {e.mask_bits}, {(1 << (8 * count)) - 1}")

    def place(lane: int, column: int) -> int:
        """Where row lane % 8, column `column` of matrix lane / 8 is held."""
        matrix, row = min(lane // 8, count - 1), lane % 8
        place = (column, row) if transposed else (row, column)
        ((holder, half),) = _HALVES.holders(*place)
        return _half(matrix, holder, half)

    name = f"store_{'across' if transposed else 'straight'}_{count}"
    words = [
        _gather(e, f"{name}_{word}", values, lambda lane, half, w=word: place(lane, 2 * w + half))
        for word in range(4)
    ]
    store(e, space, address_lanes(e, address), 32, words, mask)


@HANDLERS.of("movmatrix")
def _transpose(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b16",))
    if not all(m.flag(word) for word in ("sync", "aligned", "m8n8", "trans")):
        raise m.fail()
    value = e.read(item.operands[1], 32)

    def source(lane: int, half: int) -> int:
        ((holder, other),) = _HALVES.holders(*reversed(_HALVES.place(lane, half)))
        return _half(0, holder, other)

    e.write(item.operands[0], _gather(e, "transpose", [value], source), 32)


# -- mma


class Shape(NamedTuple):
    m: int
    n: int
    k: int


_SHAPES = {
    f"m{m}n8k{k}": Shape(m, 8, k)
    for m, k in ((8, 4), (8, 16), (8, 32), (16, 4), (16, 8), (16, 16), (16, 32), (16, 64))
}
# Bits of an element, and the shapes that PTX has for it.
ELEMENTS = {
    "f16": (16, ("m16n8k8", "m16n8k16")), "bf16": (16, ("m16n8k8", "m16n8k16")),
    "tf32": (32, ("m16n8k4", "m16n8k8")),
    "f64": (64, ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    "e4m3": (8, ("m16n8k16", "m16n8k32")), "e5m2": (8, ("m16n8k16", "m16n8k32")),
    "s8": (8, ("m8n8k16", "m16n8k16", "m16n8k32")),
    "u8": (8, ("m8n8k16", "m16n8k16", "m16n8k32")),
    "s4": (4, ("m8n8k32", "m16n8k32", "m16n8k64")),
    "u4": (4, ("m8n8k32", "m16n8k32", "m16n8k64")),
}  # fmt: skip


@HANDLERS.of("mma")
def _multiply(e: Emitter, item: Instruction, m: Modifiers) -> None:
    sums = ("f16", "f32", "f64", "s32")
    c_kind, b_kind, a_kind, d_kind = (
        m.type(sums), m.type(ELEMENTS), m.type(ELEMENTS), m.type(sums)
    )  # fmt: skip
    name = m.one_of(_SHAPES)
    if not all(m.flag(word) for word in ("sync", "aligned", "row", "col")):
        raise m.fail()
    m.flag("kind::f8f6f4")
    m.one_of(("rn",))
    saturates = m.flag("satfinite")
    bits = ELEMENTS[a_kind][0]
    if name not in ELEMENTS[a_kind][1] or ELEMENTS[b_kind][0] != bits:
        raise m.fail()
    shape = _SHAPES[name]
    d, a, b, c = item.operands
    each = max(1, 32 // bits)
    parts = [
        [_element(e, operand, j, kind) for operand in registers_of(fragment) for j in range(each)]
        for fragment, kind in ((a, a_kind), (b, b_kind))
    ]
    sums_in = _sums(e, c, c_kind)
    wanted = shape.m // 8 * 2
    if len(parts[0]) * LANES != shape.m * shape.k or len(sums_in) != wanted:
        raise m.fail("has fragments of another size")
    results = product(e, shape, each, parts[0], parts[1], sums_in)
    _write_sums(e, d, d_kind, results, saturates)


def _element(e: Emitter, operand: Operand, j: int, kind: str) -> str:
    """Element j of a register as float64 lanes."""
    if kind == "f64":
        return e.as_float(e.read(operand, 64), "f64")
    return element_of_word(e, e.read(operand, 32), j, kind)


def element_of_word(e: Emitter, word: str, j: int, kind: str) -> str:
    """Element j of lanes of 32 bits as float64 lanes."""
    bits = ELEMENTS[kind][0]
    if kind in ("f16", "bf16"):
        return to_double(e, widen(e, half_of_pair(e, word, j), kind)[0])
    if kind == "tf32":
        return to_double(
            e, e.as_float(e.op(f"and {lanes(32)} {word}, {splat(32, ~0x1FFF)}"), "f32")
        )
    up = e.op(f"shl {lanes(32)} {word}, {splat(32, 32 - bits * (j + 1))}")
    shift = "ashr" if kind[0] == "s" else "lshr"
    part = e.op(f"{shift} {lanes(32)} {up}, {splat(32, 32 - bits)}")
    if kind[0] == "e":
        return to_double(e, from_byte(e, part, kind))
    return e.op(f"sitofp {lanes(32)} {part} to {_DOUBLES}")


def _sums(e: Emitter, operand: Operand, kind: str) -> list[str]:
    """The elements of C, as float64 lanes."""
    found = []
    for register in registers_of(operand):
        if kind == "f64":
            found.append(e.as_float(e.read(register, 64), "f64"))
        elif kind == "s32":
            found.append(e.op(f"sitofp {lanes(32)} {e.read(register, 32)} to {_DOUBLES}"))
        elif kind == "f32":
            found.append(to_double(e, e.as_float(e.read(register, 32), "f32")))
        else:
            word = e.read(register, 32)
            halves = [widen(e, half_of_pair(e, word, i), "f16")[0] for i in range(2)]
            found += [to_double(e, half) for half in halves]
    return found


def _write_sums(
    e: Emitter, operand: Operand, kind: str, values: list[str], saturates: bool
) -> None:
    if kind == "f16":
        halves = [narrow(e, to_odd(e, value), "f16") for value in values]
        for i, register in enumerate(registers_of(operand)):
            e.write(register, join_pair(e, halves[2 * i], halves[2 * i + 1]), 32)
        return
    for register, value in zip(registers_of(operand), values, strict=True):
        if kind == "f64":
            e.write(register, e.as_bits(value, "f64"), 64)
        elif kind == "f32":
            number = e.op(f"fptrunc {_DOUBLES} {value} to {float_lanes('f32')}")
            e.write(register, e.as_bits(number, "f32"), 32)
        elif saturates:
            found = e.intrinsic("llvm.fptosi.sat.v32i32.v32f64", lanes(32), f"{_DOUBLES} {value}")
            e.write(register, found, 32)
        else:
            whole = e.op(f"fptosi {_DOUBLES} {value} to {lanes(64)}")
            e.write(register, e.op(f"trunc {lanes(64)} {whole} to {lanes(32)}"), 32)


def product(
    e: Emitter, shape: Shape, each: int, a: list[str] | None, b: list[str], c: list[str]
) -> list[str]:
    """D = A B + C of one shape, by a function of the module that works in the Warp's tiles.

    Without `a`, A is there from before.
    """
    at, places = 0, {}
    counts = (shape.m * shape.k // LANES, len(b), len(c))
    for name, values, count in zip("abc", (a, b, c), counts, strict=True):
        places[name] = at
        for i, value in enumerate(values or ()):
            e.do(
                f"store {_DOUBLES} {value}, ptr {e.warp_field('tiles', at + 8 * LANES * i)}, "
                "align 64"
            )
        at += 8 * LANES * count
    name = f"mma_m{shape.m}k{shape.k}_{each}"
    e.need(
        "llvm.fma.v8f64",
        "declare <8 x double> @llvm.fma.v8f64(" + ", ".join(["<8 x double>"] * 3) + ")",
    )
    function = e.need(name, _product_function(name, shape, each, places))
    e.do(f"call void {function}(ptr {e.warp_field('tiles')})")
    _, _, out = mma_fragments(shape.m, shape.k, 32 // each)
    results = []
    for i in range(len(c)):
        # Eight rows of D, one after the other, hold element i of each lane at one place.
        half = e.op(f"load <64 x double>, ptr "
                    f"{e.warp_field('tiles', places['c'] + 512 * (i // 2))}, align 64")  # fmt: skip
        held = (out.place(lane, i) for lane in range(LANES))
        picks = ", ".join(f"i32 {row % 8 * 8 + column}" for row, column in held)
        results.append(
            e.op(f"shufflevector <64 x double> {half}, <64 x double> poison, <32 x i32> <{picks}>")
        )
    return results


def _product_function(name: str, shape: Shape, each: int, places: dict[str, int]) -> str:
    """Rows of D one by one, in place of C; the columns of B are vectors of 8."""
    x, y, out = mma_fragments(shape.m, shape.k, 32 // each)
    lines = []
    for k in range(shape.k):
        lanes_of_k = [y.holders(column, k)[0] for column in range(8)]
        at = places["b"] + lanes_of_k[0][1] * 8 * LANES
        picks = ", ".join(f"i32 {lane}" for lane, _ in lanes_of_k)
        lines += [
            f"  %pb{k} = getelementptr i8, ptr %tiles, i64 {at}",
            f"  %vb{k} = load <32 x double>, ptr %pb{k}",
            (
                f"  %b{k} = shufflevector <32 x double> %vb{k}, <32 x double> poison, "
                f"<8 x i32> <{picks}>"
            ),
        ]
    step = x.holders(1, 0)[0][0] - x.holders(0, 0)[0][0]  # lanes from row to row
    rows, sums = [], ["  %row = shl i64 %g, 6", f"  %step = mul i64 %g, {8 * step}"]
    for half in range(shape.m // 8):
        at = places["c"] + 512 * half
        # Even and odd columns side by side: eight rows of eight.
        held = [out.holders(8 * half + row, column)[0] for row in range(8) for column in range(8)]
        pairs = ", ".join(f"i32 {element % 2 * LANES + lane}" for lane, element in held)
        rows += [
            f"  %e{half} = getelementptr i8, ptr %tiles, i64 {at}",
            f"  %o{half} = getelementptr i8, ptr %tiles, i64 {at + 256}",
            f"  %ve{half} = load <32 x double>, ptr %e{half}",
            f"  %vo{half} = load <32 x double>, ptr %o{half}",
            (
                f"  %c{half} = shufflevector <32 x double> %ve{half}, <32 x double> %vo{half}, "
                f"<64 x i32> <{pairs}>"
            ),
            f"  store <64 x double> %c{half}, ptr %e{half}",
        ]
        sums += [
            f"  %d{half} = getelementptr i8, ptr %e{half}, i64 %row",
            f"  %s{half}_0 = load <8 x double>, ptr %d{half}",
        ]
        for k in range(shape.k):
            lane, element = x.holders(8 * half, k)[0]
            place = places["a"] + (element * LANES + lane) * 8
            tag = f"{half}_{k}"
            sums += [
                f"  %q{tag} = getelementptr i8, ptr %tiles, i64 {place}",
                f"  %p{tag} = getelementptr i8, ptr %q{tag}, i64 %step",
                f"  %x{tag} = load double, ptr %p{tag}",
                f"  %i{tag} = insertelement <8 x double> poison, double %x{tag}, i32 0",
                (
                    f"  %a{tag} = shufflevector <8 x double> %i{tag}, <8 x double> poison, "
                    "<8 x i32> zeroinitializer"
                ),
                (
                    f"  %s{half}_{k + 1} = call <8 x double> @llvm.fma.v8f64(<8 x double> %a{tag}, "
                    f"<8 x double> %b{k}, <8 x double> %s{tag})"
                ),
            ]
        sums.append(f"  store <8 x double> %s{half}_{shape.k}, ptr %d{half}")
    body = "\n".join([*lines, *rows, "  br label %loop", "loop:",
                      "  %g = phi i64 [0, %entry], [%next, %loop]", *sums,
                      "  %next = add i64 %g, 1", "  %more = icmp ult i64 %next, 8",
                      "  br i1 %more, label %loop, label %done", "done:"])  # fmt: skip
    return f"define internal void @{name}(ptr %tiles) noinline {{\nentry:\n{body}\n  ret void\n}}\n"
