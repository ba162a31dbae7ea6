"""Functions of ROCm's library ockl on emulated GPUs, against NumPy.

Not among them: those with inline assembly (`wfany`, `wfall`, `wfsame`), which the embedded LLVM
cannot read, `pack`, which needs v_cvt_pk_u8_f32, images, queues, and calls of the host.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.emulate.amd.device_libs import ITEMS, function_object
from tests.emulate.amd.test_device_libs import BITCODE, CHIPS
from tests.emulate.judges import judge

Array = np.ndarray[Any, Any]
TYPES = {
    "i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64, "half": np.float16,
    "float": np.float32, "double": np.float64, "i1": np.uint32,
}  # fmt: skip
KINDS = {"i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64", "f16": "half", "f32": "float",
         "f64": "double"}  # fmt: skip


@dataclass(frozen=True)
class Function:
    """`expected` gets the arguments as arrays, integers as Python's, and the width of a wave.

    `parts` are the arguments that are vectors of fewer bits, with their types.
    """

    types: tuple[str, ...]
    result: str
    expected: Callable[..., Any]
    constants: tuple[str, ...] = ()
    parts: str = ""
    by_wave: bool = False
    error: float = 0


FUNCTIONS: dict[str, Function] = {}


def _each(name: str, types: str, result: str, compute: Callable[..., int], **more: Any) -> None:
    """A function of one work item; `compute` gets its arguments, and integers are cut to size."""
    kinds = tuple(types.split())
    FUNCTIONS[name] = Function(
        kinds, result, lambda *v: [compute(*one) for one in zip(*v, strict=True)], **more
    )


def signed(n: int, bits: int = 32) -> int:
    return (n & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


def fields(n: int, bits: int = 8, total: int = 32) -> list[int]:
    return [n >> low & (1 << bits) - 1 for low in range(0, total, bits)]


def clamped(n: int, letter: str, bits: int) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if letter == "i" else (0, (1 << bits) - 1)
    return min(max(n, low), high)


def apart(a: int, b: int, bits: int = 8, is_masked: bool = False) -> int:
    """How far fields are from others in all; masked, where the others are not 0."""
    pairs = zip(fields(a, bits), fields(b, bits), strict=True)
    return sum(abs(one - other) for one, other in pairs if other or not is_masked)


def four(window: int, b: int, totals: int, is_masked: bool) -> int:
    sums = [
        (apart(window >> 8 * i & 0xFFFFFFFF, b, is_masked=is_masked) + total) & 0xFFFF
        for i, total in enumerate(fields(totals, 16, 64))
    ]
    return sum(one << 16 * i for i, one in enumerate(sums))


for _bits in (32, 64):
    _of = f"i{_bits}"
    for _letter in "iu":

        def _as(n: int, letter: str = _letter, bits: int = _bits) -> int:
            return signed(n, bits) if letter == "i" else n

        for _name, _sign in (("add", 1), ("sub", -1)):
            _each(f"{_name}_sat_{_letter}{_bits}", f"{_of} {_of}", _of,
                  lambda a, b, f=_as, s=_sign, letter=_letter, bits=_bits:
                  clamped(f(a) + s * f(b), letter, bits))  # fmt: skip
        _each(f"mul_hi_{_letter}{_bits}", f"{_of} {_of}", _of,
              lambda a, b, f=_as, bits=_bits: f(a) * f(b) >> bits)  # fmt: skip
    _each(f"popcount_u{_bits}", _of, _of, lambda a: a.bit_count())
for _bits in (8, 16, 32, 64):
    _of = f"i{_bits}"
    _each(f"clz_u{_bits}", _of, _of, lambda a, bits=_bits: bits - a.bit_length())
    _each(f"ctz_u{_bits}", _of, _of,
          lambda a, bits=_bits: (a & -a).bit_length() - 1 if a else bits)  # fmt: skip
_each("bfm_u32", "i32 i32", "i32", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31))
_each("bfe_u32", "i32 i32 i32", "i32",
      lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1)  # fmt: skip
_each("bfe_i32", "i32 i32 i32", "i32",
      lambda a, b, c: signed(signed(a) >> (b & 31), c & 31) if c & 31 else 0)  # fmt: skip
_each("bitalign_u32", "i32 i32 i32", "i32", lambda a, b, c: (a << 32 | b) >> (c & 31))
_each("bytealign_u32", "i32 i32 i32", "i32", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3))
_each("mul24_u32", "i32 i32", "i32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
_each("mul24_i32", "i32 i32", "i32", lambda a, b: signed(a, 24) * signed(b, 24))
_each("lerp_u32", "i32 i32 i32", "i32", lambda a, b, c: sum(
    (x + y + (z & 1) >> 1) << 8 * i
    for i, (x, y, z) in enumerate(zip(fields(a), fields(b), fields(c), strict=True))))  # fmt: skip
_each("sad_u32", "i32 i32 i32", "i32", lambda a, b, c: apart(a, b) + c)
_each("sadhi_u32", "i32 i32 i32", "i32", lambda a, b, c: (apart(a, b) << 16) + c)
_each("sadw_u32", "i32 i32 i32", "i32", lambda a, b, c: apart(a, b, 16) + c)
_each("sadd_u32", "i32 i32 i32", "i32", lambda a, b, c: abs(a - b) + c)
_each("msad_u32", "i32 i32 i32", "i32", lambda a, b, c: apart(a, b, is_masked=True) + c)
_each("qsad_u64", "i64 i32 i64", "i64", lambda a, b, c: four(a, b, c, is_masked=False))
_each("mqsad_u64", "i64 i32 i64", "i64", lambda a, b, c: four(a, b, c, is_masked=True))
for _number in range(4):
    _each(f"unpack{_number}_f32", "i32", "float", lambda a, n=_number: fields(a)[n])
for _kind, _order in (("i32", signed), ("u32", int), ("f32", float), ("f16", float)):
    for _name, _at in (("min3", 0), ("median3", 1), ("max3", 2)):
        _each(f"{_name}_{_kind}", " ".join([KINDS[_kind]] * 3), KINDS[_kind],
              lambda *v, at=_at, order=_order: sorted(map(order, v))[at])  # fmt: skip
for _count, _bits in ((2, 16), (4, 8), (8, 4)):
    for _letter in "su":
        for _clamps in (False, True):

            def _dot(a: int, b: int, c: int, bits: int = _bits, letter: str = _letter,
                     clamps: bool = _clamps) -> int:  # fmt: skip
                def number(n: int, bits: int) -> int:
                    return signed(n, bits) if letter == "s" else n

                pairs = zip(fields(a, bits), fields(b, bits), strict=True)
                total = sum(number(x, bits) * number(y, bits) for x, y in pairs) + number(c, 32)
                return clamped(total, "i" if letter == "s" else "u", 32) if clamps else total

            _each(f"{_letter}dot{_count}{' clamp' * _clamps}", "i32 i32 i32", "i32", _dot,
                  constants=(f"i1 {str(_clamps).lower()}",),
                  parts=f"<{_count} x i{_bits}>" if _bits > 4 else "")  # fmt: skip

# -- of a wave


def _waves(values: Array, wave: int) -> Array:
    return values.reshape(-1, wave)


def _reduced(how: Any, is_scan: bool, inclusive: bool, zero: Any) -> Callable[..., Array]:
    def compute(values: Array, wave: int) -> Array:
        rows = _waves(values, wave)
        sums = how.accumulate(rows, 1)
        if not is_scan:
            return np.repeat(sums[:, -1:], wave, 1).ravel()
        if not inclusive:
            first = np.full((len(rows), 1), zero, sums.dtype)
            sums = np.concatenate([first, sums[:, :-1]], 1)
        return sums.ravel()

    return compute


def _add_wave(name: str, kind: str, how: Any, zero: Any) -> None:
    of, error = KINDS[kind], 0.0
    if kind[0] == "f":
        error = {"f16": 2.0**-7, "f32": 1e-5, "f64": 1e-13}[kind] if name == "add" else 0
    view = np.dtype(kind[0] + str(int(kind[1:]) // 8))

    def compute(values: Array, wave: int, made: Any) -> Array:
        wide = np.float64 if kind[0] == "f" else view
        with np.errstate(over="ignore"):
            return made(values.view(view).astype(wide), wave)

    for scan, inclusive in ((False, True), (True, True), (True, False)):
        made = _reduced(how, scan, inclusive, zero)
        key = f"wf{'scan' if scan else 'red'}_{name}_{kind}"
        FUNCTIONS[f"{key}{' before' * (not inclusive)}"] = Function(
            (of,), of, lambda v, wave, made=made: compute(v, wave, made), by_wave=True, error=error,
            constants=(f"i1 {str(inclusive).lower()}",) if scan else (),
        )  # fmt: skip


for _kind in KINDS:
    _is_float = _kind[0] == "f"
    _limits = (
        (np.inf, -np.inf) if _is_float
        else (np.iinfo(_kind.replace("i", "int").replace("u", "uint")).max,
              np.iinfo(_kind.replace("i", "int").replace("u", "uint")).min)
    )  # fmt: skip
    _add_wave("add", _kind, np.add, 0)
    _add_wave("min", _kind, np.minimum, _limits[0])
    _add_wave("max", _kind, np.maximum, _limits[1])
    if not _is_float:
        _add_wave("and", _kind, np.bitwise_and, -1 if _kind[0] == "i" else _limits[0])
        _add_wave("or", _kind, np.bitwise_or, 0)
        _add_wave("xor", _kind, np.bitwise_xor, 0)
FUNCTIONS["lane_u32"] = Function(
    (), "i32", lambda wave: np.tile(np.arange(wave), ITEMS // wave), by_wave=True
)
FUNCTIONS["activelane_u32"] = FUNCTIONS["lane_u32"]


def drawn(of: str, rng: np.random.Generator) -> Array:
    """64 numbers, of all sizes; floats are finite."""
    kind = TYPES[of]
    if np.dtype(kind).kind == "f":
        return rng.standard_normal(ITEMS).astype(kind)
    bits = np.dtype(kind).itemsize * 8
    values = rng.integers(0, 1 << bits, ITEMS, kind, endpoint=False)
    values >>= rng.integers(0, bits, ITEMS).astype(kind) * (rng.random(ITEMS) < 0.4).astype(kind)
    return values


# The libraries are older than gfx11, which lacks the products that they take there.
HAVING_DOTS = ("gfx90a", "gfx942", "gfx1030")


def chosen() -> list[tuple[str, str]]:
    """Chips and functions: without --full, one on each chip."""
    found = []
    for chip in CHIPS:
        names = [name for name in FUNCTIONS if "dot" not in name or chip in HAVING_DOTS]
        if "FULL_TESTS" not in os.environ:
            names = random.Random(f"ockl {chip}").sample(sorted(names), 1)
        found += [(chip, name) for name in names]
    return found


@pytest.mark.parametrize(("chip", "name"), chosen())
def test_functions_give_what_numpy_gives(machine, chip, name):
    of, rng = FUNCTIONS[name], np.random.default_rng(list(name.encode()))
    given = [drawn(one, rng) for one in of.types]
    types = tuple(of.parts if of.parts and n < 2 else one for n, one in enumerate(of.types))
    symbol = "__ockl_" + name.split()[0]
    code = function_object(
        judge("device-libs") / BITCODE, chip, symbol, of.result, types, of.constants
    )
    gpu = machine(chip)
    kind = np.dtype(TYPES[of.result])
    places = [gpu.put(one.tobytes()) for one in (np.zeros(ITEMS, kind), *given)]
    loaded = gpu.load(code)
    gpu.launch(loaded, "k", (1, 1, 1), (ITEMS, 1, 1), np.array(places, np.uint64).tobytes())
    found = np.frombuffer(gpu.space.read(places[0], ITEMS * kind.itemsize), kind)
    if of.by_wave:
        expected = of.expected(*given, wave=loaded[0].kernels["k"].wave)
    else:
        expected = of.expected(*(one.tolist() for one in given))
    if kind.kind == "f":
        np.testing.assert_allclose(found.astype(float), expected, of.error, of.error)
        return
    cut = [int(n) % (1 << 8 * kind.itemsize) for n in expected]
    np.testing.assert_array_equal(found, np.array(cut, kind))
