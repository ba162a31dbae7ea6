"""Matrix instructions: WMMA of gfx11 and gfx12, MFMA of CDNA, and those whose A is sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.matrix_function import product_function
from treadle.emulate.amd.matrix_layouts import BITS, Sources, Unit, unit_of, unit_of_formats
from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.operands import Operand
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []


def _spill(w: Wave, of: Operand, count: int, area: str, flip: int = 0, keep: int = -1) -> str:
    """Puts registers where a function finds them, with some bits masked and others flipped."""
    place = w.e.warp_field(area)
    is_constant = of.kind in (Kind.CONSTANT, Kind.LITERAL)
    for part in range(count):
        value = w.lanes_of(of, 0 if is_constant else part)
        if keep != -1:
            value = w.x.op("u32", "and", value, w.x.const("u32", keep))
        if flip:
            value = w.x.op("u32", "xor", value, w.x.const("u32", flip))
        at = w.e.op(f"getelementptr i8, ptr {place}, i64 {4 * w.width * part}")
        w.e.do(f"store {w.e.lanes('i32')} {value}, ptr {at}, align 4")
    return place


def _write(w: Wave, unit: Unit, d: str, is_high: bool) -> None:
    """The sums to registers. EXEC does not matter."""
    to = w.item.operands["vdst"]
    letter = "a" if to.kind is Kind.AGPR else "v"
    is_half = BITS[unit.total] == 16 and unit.total_bits == 32
    for part in range(unit.registers("sums")):
        at = w.e.op(f"getelementptr i8, ptr {d}, i64 {4 * w.width * part}")
        value = w.e.op(f"load {w.e.lanes('i32')}, ptr {at}, align 4")
        if is_half:
            value = _half_of(w, value, w.vector(to, part), is_high)
        w.registers.write(f"{letter}{to.index + part}", value)


def _half_of(w: Wave, new: str, old: str, is_high: bool) -> str:
    """A half of one register and the other one of another."""
    mask = 0xFFFF0000 if is_high else 0xFFFF
    mine = w.x.op("u32", "and", new, w.x.const("u32", mask))
    return w.x.op("u32", "or", mine, w.x.op("u32", "and", old, w.x.const("u32", mask ^ 0xFFFFFFFF)))


@dataclass(frozen=True)
class _Signs:
    """Bits of registers of A, B and C to flip, and those of C to keep."""

    a: int = 0
    b: int = 0
    c: int = 0
    keep: int = -1


def _signs(w: Wave, unit: Unit) -> _Signs:
    """What neg_lo and neg_hi, or blgp of float64, say."""
    m = w.item.modifiers
    low, high = m.get("neg_lo", 0), m.get("neg_hi", 0)
    if unit.kinds[0] in ("i8", "u8", "i4", "u4") or not (low or high):
        return _Signs()
    if BITS[unit.kinds[0]] == 16:
        a, b = (0x8000 * (low >> n & 1) | 0x80000000 * (high >> n & 1) for n in range(2))
    elif (low | high) & 3:
        raise Unsupported(f"{w.item.operation} with a negated factor")
    else:
        a = b = 0
    sign = 0x80000000 if BITS[unit.total] == 32 else 0x80008000
    keep = 0xFFFFFFFF ^ sign if high >> 2 & 1 else -1
    return _Signs(a, b, sign * (low >> 2 & 1), keep)


def _scales(w: Wave) -> str:
    """Puts the scales of A and of B where a function finds them: of each register the byte that
    op_sel (a number's lower bit) and op_sel_hi say.
    """
    m, place = w.item.modifiers, w.e.warp_field("matrix_k")
    for n in range(2):
        byte = (m["op_sel"] >> n & 1) + 2 * (m["op_sel_hi"] >> n & 1)
        of = w.item.operands[f"scale_src{n}"]
        if of.kind in (Kind.CONSTANT, Kind.LITERAL):
            raise Unsupported(f"{w.item.operation} with a scale that is a constant")
        value = w.x.op("u32", "lshr", w.lanes_of(of), w.x.const("u32", 8 * byte))
        value = w.x.op("u32", "and", value, w.x.const("u32", 255))
        at = w.e.op(f"getelementptr i8, ptr {place}, i64 {4 * w.width * n}")
        w.e.do(f"store {w.e.lanes('i32')} {value}, ptr {at}, align 4")
    return place


def _multiply(w: Wave, unit: Unit, name: str, key: int = 0) -> None:
    m, operands = w.item.modifiers, w.item.operands
    third = operands["vdst"] if unit.is_sparse else operands.get("src2") or operands["vdst"]
    if third.kind in (Kind.CONSTANT, Kind.LITERAL) and third.value and BITS[unit.total] != 32:
        raise Unsupported(f"{w.item.operation} with a constant that is not 0")
    clamps = bool(m.get("clamp"))
    if clamps and unit.total != "i32":
        raise Unsupported(f"{w.item.operation} with clamp")
    signs = _signs(w, unit)
    is_high = bool(unit.total_bits == 32 and m.get("op_sel", 0) >> 2 & 1)
    a = _spill(w, operands["src0"], unit.registers("left"), "matrix_a", signs.a)
    b = _spill(w, operands["src1"], unit.registers("right"), "matrix_b", signs.b)
    d = _spill(w, third, unit.registers("sums"), "matrix_d", signs.c, signs.keep)
    picks = a
    if unit.is_sparse:
        picks = _spill(w, operands.get("idx") or operands["src2"], 1, "matrix_k")
    elif unit.is_scaled:
        picks = _scales(w)
    function = product_function(w, unit, f"{name}{'_clamp' if clamps else ''}", clamps)
    # The upper halves of registers are two bytes further on.
    at = w.e.op(f"getelementptr i8, ptr {d}, i64 2") if is_high else d
    w.e.do(f"call void {function}(ptr {a}, ptr {b}, ptr {at}, ptr {picks}, i32 {key})")
    _write(w, unit, d, is_high)


# -- names

_EIGHTS = tuple(f"{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8"))


def _add_mfma(name: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        m, is_double = w.item.modifiers, "_f64_" in w.name
        side = int(w.name.split("_")[3].split("x")[0])
        blocks = w.item.operands["vdst"].count * 64 // side**2 // (2 if is_double else 1)
        sources = Sources(*(m.get(field, 0) for field in ("cbsz", "abid", "blgp")))
        if is_double and sources != Sources():
            raise Unsupported(f"{w.item.operation} with cbsz, abid or blgp")
        unit = unit_of(w.name, 9, 64, blocks, sources=sources)
        more = f"_{sources.cbsz}_{sources.abid}_{sources.blgp}"
        _multiply(w, unit, f"{w.name}_{w.chip.name}{more}")


def _add_formats(name: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        formats = w.item.modifiers["cbsz"], w.item.modifiers["blgp"]
        unit = unit_of_formats(w.name, *formats)
        _multiply(w, unit, f"{w.name}_{formats[0]}_{formats[1]}")


def _add_smfmac(name: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        """The bits that pick are a part of the register, which abid tells where cbsz is 0."""
        unit, m = unit_of(w.name, 9, 64), w.item.modifiers
        key = 0 if m.get("cbsz") else m.get("abid", 0)
        _multiply(w, unit, f"{w.name}_{w.chip.name}", key * _picking(unit))


def _picking(unit: Unit) -> int:
    """The bits that a lane needs to pick: two for each number of A."""
    return 2 * (1 + max(unit.left(0, k, 0)[1] for k in range(unit.stored)))


def _add_wmma(name: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        m = w.item.modifiers
        unit = unit_of(w.name, w.chip.generation, w.width, signs=m.get("neg_lo", 0))
        key = 0
        if unit.is_sparse:
            which = m.get("index_key_8bit", 0) or m.get("index_key_16bit", 0)
            key = which * _picking(unit)
        more = f"{w.chip.generation}_{w.width}_{'_'.join(unit.kinds)}"
        _multiply(w, unit, f"{w.name}_{more}", key)


_SHAPES = {
    "f32": ("32x32x1_2b", "16x16x1_4b", "4x4x1_16b", "32x32x2", "16x16x4"),
    "xf32": ("16x16x8", "32x32x4"),
    "f16": ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16", "16x16x32", "32x32x16"),
    "i8": ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x16", "16x16x32", "16x16x64",
           "32x32x32"),
    "f64": ("16x16x4", "4x4x4_4b"),
}  # fmt: skip
_SHAPES["bf16"] = _SHAPES["f16"]
_TOTALS = {"i8": "i32", "f64": "f64"}
for _kind, _shapes in _SHAPES.items():
    for _shape in _shapes:
        _add_mfma(f"v_mfma_{_TOTALS.get(_kind, 'f32')}_{_shape}_{_kind}")
for _kind in _EIGHTS:
    for _shape in ("16x16x32", "32x32x16"):
        _add_mfma(f"v_mfma_f32_{_shape}_{_kind}")
    for _shape in ("16x16x64", "32x32x32"):
        _add_smfmac(f"v_smfmac_f32_{_shape}_{_kind}")
for _shape in ("16x16x32", "32x32x16"):
    for _kind in ("f16", "bf16"):
        _add_smfmac(f"v_smfmac_f32_{_shape}_{_kind}")
for _shape in ("16x16x64", "32x32x32"):
    _add_smfmac(f"v_smfmac_i32_{_shape}_i8")
for _shape in ("16x16x128", "32x32x64"):
    for _word in ("", "scale_"):
        _add_formats(f"v_mfma_{_word}f32_{_shape}_f8f6f4")
# As gfx90a calls them.
for _kind, _shapes in {
    "f32": ("32x32x1", "16x16x1", "4x4x1", "32x32x2", "16x16x4"),
    "f16": ("32x32x4", "16x16x4", "4x4x4", "32x32x8", "16x16x16"),
    "bf16_1k": ("32x32x4", "16x16x4", "4x4x4", "32x32x8", "16x16x16"),
    "bf16": ("32x32x2", "16x16x2", "4x4x2", "32x32x4", "16x16x8"),
    "i8": ("32x32x4", "16x16x4", "4x4x4", "32x32x8", "16x16x16"),
    "f64": ("16x16x4", "4x4x4"),
}.items():
    for _shape in _shapes:
        _add_mfma(f"v_mfma_{_TOTALS.get(_kind, 'f32')}_{_shape}{_kind}")
# Dense ones, and those of gfx12 whose A is sparse, which are twice as deep.
for _family, _depth in (("wmma", 16), ("swmmac", 32)):
    for _kind in ("f16", "bf16"):
        for _total in ("f32", _kind):
            _add_wmma(f"v_{_family}_{_total}_16x16x{_depth}_{_kind}")
    for _deeper, _kind in ((_depth, "iu8"), (_depth, "iu4"), (2 * _depth, "iu4")):
        _add_wmma(f"v_{_family}_i32_16x16x{_deeper}_{_kind}")
    for _kind in _EIGHTS:
        _add_wmma(f"v_{_family}_f32_16x16x{_depth}_{_kind}")
