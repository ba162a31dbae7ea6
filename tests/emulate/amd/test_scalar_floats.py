"""Arithmetic of floats that a whole wave shares, which gfx12 does on scalar registers."""

import struct

import numpy as np

from .conftest import compile_for, instructions

ENDS = (0.0, -0.0, 1.0, -2.5, 0.5, 3e38, 1e-40, np.inf, -np.inf, np.nan, 65519.0, 1e-7, -7.75, 3e9)
BODIES = {
    "fadd": "fadd TYPE %a, %b", "fsub": "fsub TYPE %a, %b", "fmul": "fmul TYPE %a, %b",
    "fma": "call TYPE @llvm.fma.TYPE(TYPE %a, TYPE %b, TYPE %b)",
    "min": "call TYPE @llvm.minnum.TYPE(TYPE %a, TYPE %b)",
    "max": "call TYPE @llvm.maxnum.TYPE(TYPE %a, TYPE %b)",
    "maximum": "call TYPE @llvm.maximum.TYPE(TYPE %a, TYPE %b)",
    "floor": "call TYPE @llvm.floor.TYPE(TYPE %a)", "ceil": "call TYPE @llvm.ceil.TYPE(TYPE %a)",
    "trunc": "call TYPE @llvm.trunc.TYPE(TYPE %a)",
    "even": "call TYPE @llvm.roundeven.TYPE(TYPE %a)",
}  # fmt: skip
COMPARISONS = ("olt", "oeq", "one", "ord", "ult", "ueq", "ugt", "oge")


FORMULAS = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply,
    "fma": lambda a, b: (a.astype(np.longdouble) * b + b).astype(a.dtype),
    "min": np.fmin, "max": np.fmax, "maximum": np.maximum,
    "floor": lambda a, _: np.floor(a), "ceil": lambda a, _: np.ceil(a),
    "trunc": lambda a, _: np.trunc(a), "even": lambda a, _: np.rint(a),
}  # fmt: skip
PREDICATES = {
    "olt": lambda a, b: a < b, "oeq": lambda a, b: a == b,
    "one": lambda a, b: (a < b) | (a > b), "ord": lambda a, b: (a == a) & (b == b),
    "ult": lambda a, b: ~(a >= b), "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b), "oge": lambda a, b: a >= b,
}  # fmt: skip


def kernel():
    """All operations of a type on each pair of an array, by one wave: their results in a row."""
    lines, count = [], len(BODIES) + len(COMPARISONS)
    for number, body in enumerate(BODIES.values()):
        lines.append(f"%x{number} = {body}")
        lines.append(f"%w{number} = bitcast TYPE %x{number} to BITS")
    for number, how in enumerate(COMPARISONS, len(BODIES)):
        lines.append(f"%x{number} = fcmp {how} TYPE %a, %b")
        lines.append(f"%w{number} = zext i1 %x{number} to BITS")
    for number in range(count):
        lines.append(f"%n{number} = add i32 %row, {number}")
        lines.append(f"%p{number} = getelementptr BITS, ptr addrspace(1) %r, i32 %n{number}")
        lines.append(f"store BITS %w{number}, ptr addrspace(1) %p{number}")
    names = ("fma", "minnum", "maxnum", "maximum", "floor", "ceil", "trunc", "roundeven")
    takes = {"fma": 3, "minnum": 2, "maxnum": 2, "maximum": 2}
    declared = "\n".join(
        f"declare TYPE @llvm.{one}.TYPE({', '.join(['TYPE'] * takes.get(one, 1))})" for one in names
    )
    newline = "\n  "
    text = f"""
target triple = "amdgcn-amd-amdhsa"
{declared}
define amdgpu_kernel void @k(ptr addrspace(4) %as, ptr addrspace(4) %bs, ptr addrspace(1) %r,
    i32 %count) {{
entry:
  br label %loop
loop:
  %j = phi i32 [0, %entry], [%next, %loop]
  %row = mul i32 %j, {count}
  %pa = getelementptr TYPE, ptr addrspace(4) %as, i32 %j
  %pb = getelementptr TYPE, ptr addrspace(4) %bs, i32 %j
  %a = load TYPE, ptr addrspace(4) %pa
  %b = load TYPE, ptr addrspace(4) %pb
  {newline.join(lines)}
  %next = add i32 %j, 1
  %done = icmp eq i32 %next, %count
  br i1 %done, label %end, label %loop
end:
  ret void
}}
"""
    return text.replace(".TYPE", ".f32").replace("TYPE", "float").replace("BITS", "i32")


def test_floats_of_a_whole_wave_are_what_numpy_computes(machine):
    gpu = machine("gfx1201")
    ends = np.array(ENDS, np.float32)
    a, b = np.repeat(ends, len(ends)), np.tile(ends, len(ends))
    code = compile_for("gfx1201", kernel())
    loaded = gpu.load(code)
    assert {"s_add_f32", "s_mul_f32", "s_floor_f32", "s_cmp_nge_f32"} <= {
        item.operation for _, item in instructions(loaded[0], "gfx1201")
    }
    count = len(BODIES) + len(COMPARISONS)
    out = np.zeros((len(a), count), np.uint32)
    places = [gpu.put(array.tobytes()) for array in (a, b, out)]
    gpu.launch(loaded, "k", (1, 1, 1), (1, 1, 1), struct.pack("<3QI", *places, len(a)))
    found = np.frombuffer(gpu.space.read(places[2], out.nbytes), np.uint32).reshape(out.shape)
    with np.errstate(all="ignore"):
        for number, name in enumerate(BODIES):
            got = np.ascontiguousarray(found[:, number]).view(np.float32)
            np.testing.assert_array_equal(got, FORMULAS[name](a, b), name)
        for number, name in enumerate(COMPARISONS, len(BODIES)):
            np.testing.assert_array_equal(found[:, number], PREDICATES[name](a, b), name)
