"""Kernels of bitsandbytes' ROCm libraries, with what they compute in NumPy.

`cases()` names kernels by their C++ symbols. Each has launch sizes, arguments and a check of what
the memory of its arguments holds afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LIBRARY = "libbitsandbytes_rocm715.so"

# C++ element types: their mangled names, how NumPy holds them, and their relative rounding error.
FLOAT, HALF, BFLOAT = "f", "6__half", "14__hip_bfloat16"
TYPES = {FLOAT: np.dtype(np.float32), HALF: np.dtype(np.float16), BFLOAT: np.dtype(np.uint16)}
ROUNDING = {FLOAT: 2.0**-22, HALF: 2.0**-10, BFLOAT: 2.0**-7}

# The 16 values of the two formats of 4 bits, as the package's documentation has them.
NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
        0.7229568362236023, 1.0,
    ], np.float32,
)  # fmt: skip
FP4 = np.array([0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25], np.float32)
FP4 = np.concatenate([FP4, -FP4])
TABLES = {1: FP4, 2: NF4}


def stored(values: Array, kind: str) -> Array:
    """Numbers as a C++ type, rounded to the nearest even."""
    if kind != BFLOAT:
        return values.astype(TYPES[kind])
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def numbers(memory: Array, kind: str) -> Array:
    """What stands in memory of a C++ type, as float64."""
    if kind != BFLOAT:
        return memory.astype(np.float64)
    return (memory.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@dataclass
class Case:
    """A launch. Arrays among the arguments are memory; `check` gets them as they are afterwards."""

    symbol: str
    groups: int
    workgroup: int
    arguments: list[Any]
    check: Callable[[list[Array]], None]
    groups_of_wave: dict[int, int] = field(default_factory=dict)


def random(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def close(found: Array, expected: Array, kind: str, units: float = 2) -> None:
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(
        found, expected, rtol=units * ROUNDING[kind], atol=units * ROUNDING[kind] * scale / 16
    )


# -- filling --------------------------------------------------------------------------------------


def filling() -> Iterator[Case]:
    n, ones = 1000, random(1000)
    expected: list[tuple[int, str, Array, Any]] = [
        (0, "f", np.float32(2.5) * np.ones(n, np.float32), np.float32(2.5)),
        (1, "f", np.arange(n, dtype=np.float32), np.float32(0)),
        (2, "f", ones * ones[::-1], np.float32(0)),
        (0, "h", np.full(n, 7, np.uint8), np.uint8(7)),
    ]
    for number, letter, result, value in expected:
        first = ones.copy() if letter == "f" else np.zeros(n, np.uint8)
        second = ones[::-1].copy() if letter == "f" else np.zeros(n, np.uint8)

        def check(memory: list[Array], result: Array = result) -> None:
            np.testing.assert_array_equal(memory[0], result)

        symbol = f"_Z5kfuncI{letter}Li{number}EEvPT_S1_S0_l"
        yield Case(symbol, 3, 128, [first, second, value, np.int64(n)], check)


# -- quantisation ---------------------------------------------------------------------------------


def code_of_8_bits() -> Array:
    """256 values between -1 and 1 in order, denser near 0."""
    half = np.sort(np.random.default_rng(3).random(127).astype(np.float32) ** 3)
    return np.sort(np.concatenate([-half, half, np.array([0.0, 1.0], np.float32)])).astype(
        np.float32
    )


def dequantisation() -> Iterator[Case]:
    draw = np.random.default_rng(5)
    n, block = 1500, 64
    for kind, number in ((k, number) for k in TYPES for number in (0, 1, 2)):
        packed = draw.integers(0, 256, n if number == 0 else n // 2, np.uint8)
        scales = draw.random(-(-n // block)).astype(np.float32) + 0.5
        if number == 0:
            values = code_of_8_bits()[packed]
        else:
            values = TABLES[number][np.stack([packed >> 4, packed & 15], 1).ravel()]
        result = values * np.repeat(scales, block)[:n]

        def check(memory: list[Array], result: Array = result, kind: str = kind) -> None:
            close(numbers(memory[3], kind), result.astype(np.float64), kind, 1)

        symbol = f"kDequantizeBlockwiseI{kind}Li512ELi64ELi8ELi{number}E"
        out = np.zeros(n, TYPES[kind])
        groups = -(-n // (512 if number == 0 else 1024))
        units = np.int32(block if number == 0 else block // 2)
        yield Case(
            symbol, groups, 64, [code_of_8_bits(), packed, scales, out, units, np.int32(n)], check
        )


def nearest(table: Array, values: Array, chosen: Array) -> None:
    """Each chosen value is as near as any, up to what thresholds are rounded."""
    distance = np.abs(table[None] - values[:, None]).min(1)
    assert (np.abs(chosen - values) <= distance + 2e-4).all()


def quantisation() -> Iterator[Case]:
    sizes = {4096: 4, 2048: 4, 1024: 4, 512: 2, 256: 2, 128: 2, 64: 2}
    for kind in TYPES:
        for number, (block, each) in ((m, one) for m in (0, 1, 2) for one in sizes.items()):
            n = 2 * block - 10
            given = stored(random(n), kind)
            values = numbers(given, kind)
            count = n if number == 0 else n // 2

            def check(
                memory: list[Array],
                values: Array = values,
                block: int = block,
                number: int = number,
            ) -> None:
                scales = np.array([np.abs(values[:block]).max(), np.abs(values[block:]).max()])
                np.testing.assert_allclose(memory[2], scales, rtol=1e-6)
                scaled = values / np.repeat(scales, block)[: len(values)]
                packed = memory[3]
                if number == 0:
                    table = code_of_8_bits()
                    nearest(table, scaled, table[packed])
                    return
                table = TABLES[number]
                nearest(table, scaled, table[np.stack([packed >> 4, packed & 15], 1).ravel()])

            arguments = [
                code_of_8_bits(), given, np.zeros(2, np.float32), np.zeros(count, np.uint8),
                np.zeros(4, np.float32), np.int32(0), np.int32(n),
            ]  # fmt: skip
            symbol = f"kQuantizeBlockwiseI{kind}Li{block}ELi{each}ELi0ELi{number}E"
            yield Case(symbol, 2, block // each, arguments, check)


def rows_to_int8() -> Iterator[Case]:
    rows, columns = 3, 700
    given = stored(random(rows, columns), HALF)
    values = numbers(given, HALF)

    def check(memory: list[Array]) -> None:
        scales = np.abs(values).max(1)
        np.testing.assert_allclose(memory[2], scales, rtol=1e-6)
        exact = values * (127 / scales[:, None])
        assert np.abs(memory[1].reshape(rows, columns) - exact).max() <= 0.5 + 1e-3

    arguments = [
        given, np.zeros(rows * columns, np.int8), np.zeros(rows, np.float32), np.float32(0),
        np.int32(rows), np.int32(columns),
    ]  # fmt: skip
    yield Case("kInt8VectorQuantI6__halfLi1024ELi0E", rows, 1024, arguments, check)


def product_to_half() -> Iterator[Case]:
    rows, columns = 5, 600
    draw = np.random.default_rng(9)
    given = draw.integers(-20000, 20000, (rows, columns), np.int32)
    row, column = draw.random(rows).astype(np.float32), draw.random(columns).astype(np.float32)
    bias = stored(draw.random(columns), HALF)
    result = given * row[:, None].astype(np.float64) * column / (127 * 127) + bias

    def check(memory: list[Array]) -> None:
        close(numbers(memory[3], HALF).reshape(rows, columns), result, HALF)

    arguments = [
        given, row, column, np.zeros(rows * columns, np.float16), bias,
        np.int32(rows), np.int32(columns), np.int32(rows * columns),
    ]  # fmt: skip
    yield Case("kdequant_mm_int32_fp16ILi4ELi512E", 2, 512, arguments, check)


# -- products -------------------------------------------------------------------------------------


def products() -> Iterator[Case]:
    """A matrix of 4-bit numbers by a vector: each wave makes one result."""
    inner, outer, block = 256, 6, 64
    draw = np.random.default_rng(11)
    packed = draw.integers(0, 256, outer * inner // 2, np.uint8)
    scales = draw.random(outer * inner // block).astype(np.float32) + 0.5
    matrix = NF4[np.stack([packed >> 4, packed & 15], 1).ravel()] * np.repeat(scales, block)
    for kind, bits in ((HALF, 16), (BFLOAT, 16), (FLOAT, 32)):
        vector = stored(random(inner), kind)
        result = matrix.reshape(outer, inner).astype(np.float64) @ numbers(vector, kind)

        def check(memory: list[Array], result: Array = result, kind: str = kind) -> None:
            close(numbers(memory[4], kind), result, kind, 32)

        arguments = [
            np.int32(outer), np.int32(1), np.int32(inner), vector, packed, scales, NF4,
            np.zeros(outer, TYPES[kind]), np.int32(outer), np.int32(inner // 2), np.int32(outer),
            np.int32(block),
        ]  # fmt: skip
        symbol = f"kgemm_4bit_inference_naiveI{kind}Li128ELi{bits}E"
        yield Case(symbol, 2, 128, arguments, check, {32: -(-outer // 4), 64: -(-outer // 2)})


# -- optimizers -----------------------------------------------------------------------------------

_BETA1, _BETA2, _BETA3, _ALPHA, _EPS, _RATE, _STEP = 0.9, 0.99, 0.999, 5.0, 1e-6, 0.05, 3
MOMENTUM, RMSPROP, ADAGRAD, LION, ADAM, ADEMAMIX = 1, 2, 4, 5, 0, 6


def one_state(rule: int, p: Array, g: Array, s: Array) -> tuple[Array, Array]:
    """Parameters and state after a step."""
    if rule == MOMENTUM:
        s = s * _BETA1 + g
        return p - _RATE * s, s
    if rule == LION:
        step = np.sign(s * _BETA1 + (1 - _BETA1) * g)
        return p - _RATE * step, s * _BETA2 + (1 - _BETA2) * g
    s = s + g * g if rule == ADAGRAD else s * _BETA1 + (1 - _BETA1) * g * g
    return p - _RATE * g / (np.sqrt(s) + _EPS), s


def two_states(rule: int, p: Array, g: Array, s: list[Array]) -> tuple[Array, list[Array]]:
    """Parameters and states after a step of Adam, or of AdEMAMix, which has three."""
    correction1, correction2 = 1 - _BETA1**_STEP, np.sqrt(1 - _BETA2**_STEP)
    first = s[0] * _BETA1 + (1 - _BETA1) * g
    second = s[1] * _BETA2 + (1 - _BETA2) * g * g
    if rule == ADAM:
        rate = _RATE * correction2 / correction1
        return p - rate * first / (np.sqrt(second) + _EPS * correction2), [first, second]
    slow = s[2] * _BETA3 + (1 - _BETA3) * g
    step = (first / correction1 + _ALPHA * slow) / (np.sqrt(second) / correction2 + _EPS)
    return p - _RATE * step, [first, second, slow]


def optimizers() -> Iterator[Case]:
    n = 4096  # a whole tile: of a smaller one, the kernels read shared memory that nothing wrote
    for kind in TYPES:
        g, p = stored(random(2, n)[0], kind), stored(random(2, n)[1], kind)
        state = np.abs(random(3, n)[2]) + 0.1
        scalars = [np.float32(0), np.float32(0), np.float32(_BETA1), np.float32(_BETA2)]
        last = [np.int32(_STEP), np.float32(_RATE), np.float32(1), np.bool_(False), np.int32(n)]
        for rule in (MOMENTUM, RMSPROP, ADAGRAD, LION):
            result, after = one_state(rule, numbers(p, kind), numbers(g, kind), state)

            def check(
                memory: list[Array], result: Array = result, after: Array = after, kind: str = kind
            ) -> None:
                close(numbers(memory[1], kind), result, kind, 4)
                close(memory[2].astype(np.float64), after, FLOAT, 4)

            arguments = [
                g, p, state, np.zeros(1, np.float32), *scalars, np.float32(_EPS), np.float32(0),
                *last,
            ]  # fmt: skip
            yield Case(f"21kOptimizer32bit1StateI{kind}Li{rule}E", 1, 1024, arguments, check)
        for rule, count in ((ADAM, 2), (ADEMAMIX, 3)):
            states = [state, state[::-1].copy(), random(n)][:count]
            result, both = two_states(rule, numbers(p, kind), numbers(g, kind), states)

            def check_two(
                memory: list[Array], result: Array = result, both: list[Array] = both,
                kind: str = kind,
            ) -> None:  # fmt: skip
                close(numbers(memory[1], kind), result, kind, 8)
                close(memory[2][: len(both[0])].astype(np.float64), both[0], FLOAT, 4)
                close(memory[3].astype(np.float64), both[1], FLOAT, 4)

            first = np.concatenate([states[0], *states[2:]]).astype(np.float32)
            arguments = [
                g, p, first, states[1], np.zeros(1, np.float32), *scalars, np.float32(_BETA3),
                np.float32(_ALPHA), np.float32(_EPS), np.float32(0), *last,
            ]  # fmt: skip
            yield Case(f"21kOptimizer32bit2StateI{kind}Li{rule}E", 1, 1024, arguments, check_two)


def norms() -> Iterator[Case]:
    """What optimizers sum of the squares of an update, by atomic additions."""
    n = 1300
    for kind in TYPES:
        g, p = stored(random(2, n)[0], kind), stored(random(2, n)[1], kind)
        values, state = numbers(g, kind), np.abs(random(3, n)[2]) + 0.1
        scalars = [np.float32(_EPS), np.float32(0), np.int32(_STEP), np.float32(_RATE)]
        for rule in (MOMENTUM, RMSPROP, ADAGRAD):
            after = one_state(rule, values, values, state)[1]
            step = after if rule == MOMENTUM else values / (np.sqrt(after) + _EPS)
            result = np.array([(step * step).sum()])

            def check(memory: list[Array], result: Array = result) -> None:
                np.testing.assert_allclose(memory[3], result, rtol=1e-5)

            arguments = [
                g, p, state, np.zeros(1, np.float32), np.float32(_BETA1), np.float32(_BETA2),
                *scalars, np.float32(1), np.int32(n),
            ]  # fmt: skip
            symbol = f"33kPreconditionOptimizer32bit1StateI{kind}Li{rule}ELi4096ELi8E"
            yield Case(symbol, 1, 512, arguments, check)


def cases() -> dict[str, Case]:
    """All of them by their symbols."""
    makers = (
        filling, dequantisation, quantisation, rows_to_int8, product_to_half, products, optimizers,
        norms,
    )  # fmt: skip
    return {case.symbol: case for maker in makers for case in maker()}
