"""Sums of products of parts of registers, beside NumPy's."""

import re

import ml_dtypes
import numpy as np
import pytest
from tests.thinning import chosen

from .conftest import compile_for, instructions

KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
DECLARED
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
    ptr addrspace(1) %r) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i32, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr i32, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr TOTAL, ptr addrspace(1) %c, i32 %i
  %x = load PARTS, ptr addrspace(1) %pa
  %y = load PARTS, ptr addrspace(1) %pb
  %z = load TOTAL, ptr addrspace(1) %pc
  %s = call TOTAL @NAME(GIVEN)
  %pr = getelementptr TOTAL, ptr addrspace(1) %r, i32 %i
  store TOTAL %s, ptr addrspace(1) %pr
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
ITEMS = 64
KINDS = {
    "i16": np.int16, "u16": np.uint16, "i8": np.int8, "u8": np.uint8, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2,
}  # fmt: skip
TYPES = {"f32": ("float", np.float32), "f16": ("half", np.float16), "i32": ("i32", np.int32),
         "bf16": ("bfloat", ml_dtypes.bfloat16)}  # fmt: skip
LATE = ("gfx1100", "gfx1201")
EARLY = ("gfx1030", "gfx90a", "gfx942")
# LLVM's intrinsic, the kinds of factors and sums, the instruction, and chips that have it.
CASES = [
    ("sdot2", "i16", "i16", "i32", "v_dot2c?_i32_i16", EARLY),
    ("udot2", "u16", "u16", "i32", "v_dot2_u32_u16", EARLY),
    ("sdot4", "i8", "i8", "i32", "v_dot4c?_i32_i8", EARLY),
    ("udot4", "u8", "u8", "i32", "v_dot4_u32_u8", (*EARLY, *LATE)),
    ("sdot8", "i4", "i4", "i32", "v_dot8c?_i32_i4", EARLY),
    ("udot8", "u4", "u4", "i32", "v_dot8_u32_u4", (*EARLY, *LATE)),
    ("sudot4", "i8", "u8", "i32", "v_dot4_i32_iu8", LATE),
    ("sudot4", "u8", "i8", "i32", "v_dot4_i32_iu8", LATE),
    ("sudot8", "i4", "u4", "i32", "v_dot8_i32_iu4", LATE),
    ("fdot2", "f16", "f16", "f32", "v_dot2(c|acc)?_f32_f16", (*EARLY, *LATE)),
    ("fdot2.f32.bf16", "bf16", "bf16", "f32", "v_dot2(acc)?_f32_bf16", LATE),
    ("fdot2.f16.f16", "f16", "f16", "f16", "v_dot2_f16_f16", LATE),
    ("fdot2.bf16.bf16", "bf16", "bf16", "bf16", "v_dot2_bf16_bf16", LATE),
    *((f"dot4.f32.{a}.{b}", a, b, "f32", f"v_dot4_f32_{a}_{b}", ("gfx1201",))
      for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
]  # fmt: skip
# Sums of integers also with a clamp, which no intrinsic has for floats.
RUNS = [
    (*case[:5], chip, clamps)
    for case in CASES for chip in case[5] for clamps in (False, True)[: 1 + (case[3] == "i32")]
    if chosen(f"products {case[:3]} {chip} {clamps}", 16)
]  # fmt: skip


def parts_of(words, kind):
    """The numbers that words hold, a row for each."""
    if kind[1:] != "4":
        return words.view(KINDS[kind]).reshape(len(words), -1)
    fields = words[:, None] >> 4 * np.arange(8, dtype=np.uint32) & 15
    return np.where(fields > 7, fields.astype(int) - 16, fields) if kind == "i4" else fields


def drawn(kind, rng):
    """Words of random numbers: integers of all sizes, floats that are finite."""
    if kind[0] in "iu":
        return rng.integers(0, 1 << 32, ITEMS, np.uint32)
    return rng.standard_normal((ITEMS, 32 // (8 * np.dtype(KINDS[kind]).itemsize))).astype(
        KINDS[kind]).view(np.uint32)[:, 0]  # fmt: skip


@pytest.mark.parametrize(("name", "of_a", "of_b", "of_sum", "operation", "chip", "clamps"), RUNS)
def test_they_are_what_numpy_sums(machine, name, of_a, of_b, of_sum, operation, chip, clamps):
    is_whole = of_sum == "i32"
    rng = np.random.default_rng(8)
    total, dtype = TYPES[of_sum]
    parts = {"f16": "<2 x half>", "bf16": "<2 x bfloat>", "i16": "<2 x i16>", "u16": "<2 x i16>"}
    parts = parts.get(of_a, "i32")
    given = [f"{parts} %x", f"{parts} %y", f"{total} %z"]
    if name.startswith("sudot"):
        signs = [f"i1 {str(kind[0] == 'i').lower()}" for kind in (of_a, of_b)]
        given = [signs[0], given[0], signs[1], *given[1:]]
    if is_whole or name == "fdot2":
        given.append(f"i1 {str(clamps).lower()}")
    elif name == "fdot2.f32.bf16":
        given.append("i1 false")
    called = f"llvm.amdgcn.{name}"
    types = ", ".join(one.rsplit(" ", 1)[0] for one in given)
    text = KERNEL.replace("DECLARED", f"declare {total} @{called}({types})")
    text = text.replace("GIVEN", ", ".join(given)).replace("NAME", called)
    text = text.replace("PARTS", parts).replace("TOTAL", total)
    gpu = machine(chip)
    loaded = gpu.load(compile_for(chip, text))
    seen = {item.operation for _, item in instructions(loaded[0], chip)}
    assert any(re.fullmatch(operation, one) for one in seen)
    a, b = drawn(of_a, rng), drawn(of_b, rng)
    if is_whole:
        c = rng.integers(-(1 << 31), 1 << 31, ITEMS).astype(dtype)
        c[: ITEMS // 2] >>= 20
    else:
        c = rng.standard_normal(ITEMS).astype(dtype)
    places = [gpu.put(one.tobytes()) for one in (a, b, c, np.zeros_like(c))]
    gpu.launch(loaded, "k", (1, 1, 1), (ITEMS, 1, 1), np.array(places, np.uint64).tobytes())
    found = np.frombuffer(gpu.space.read(places[3], c.nbytes), dtype)
    wide = np.int64 if is_whole else np.float64
    products = parts_of(a, of_a).astype(wide) * parts_of(b, of_b).astype(wide)
    is_unsigned = is_whole and of_a[0] == of_b[0] == "u"
    first = c.view(np.uint32) if is_unsigned else c
    exact = products.sum(1) + first.astype(wide)
    if not is_whole:
        near = np.finfo(np.float32).eps if of_sum == "f32" else 0
        np.testing.assert_allclose(found.astype(float), exact.astype(dtype).astype(float), near)
        return
    if clamps:
        exact = exact.clip(0, (1 << 32) - 1) if is_unsigned else exact.clip(-(1 << 31), 2**31 - 1)
    np.testing.assert_array_equal(found.view(np.uint32), exact.astype(np.uint64).astype(np.uint32))
