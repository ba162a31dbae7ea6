"""Atomics of every kind that LLVM selects, in each kind of memory, beside NumPy."""

import itertools
import struct

import numpy as np
import pytest
from tests.thinning import chosen

from treadle.emulate.amd.table import rows
from treadle.emulate.machine.memory import Permission

from .conftest import compile_for, instructions
from .test_kernels import CHIPS

LANES, SLOT = 64, 8  # each work item has a slot of its own, of the bytes that the widest needs
HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
"""
TAIL = """
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
!0 = !{}
"""
FREE = "!amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0"
FREE += ", !amdgpu.ignore.denormal.mode !0"


def wrapped_up(old, x):
    return np.where(old >= x, 0, old + 1).astype(old.dtype)


def wrapped_down(old, x):
    return np.where((old == 0) | (old > x), x, old - np.array(1, old.dtype))


INTEGERS = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda old, x: x, "umin": np.minimum, "umax": np.maximum,
    "min": lambda old, x: np.where(signed(old) < signed(x), old, x),
    "max": lambda old, x: np.where(signed(old) > signed(x), old, x),
    "uinc_wrap": wrapped_up, "udec_wrap": wrapped_down,
    "usub_sat": lambda old, x: np.where(old < x, 0, old - x).astype(old.dtype),
    "usub_cond": lambda old, x: np.where(old < x, old, old - x),
}  # fmt: skip
FLOATS = {"fadd": np.add, "fmin": np.fmin, "fmax": np.fmax}
TYPES = {"i32": np.uint32, "i64": np.uint64, "float": np.float32, "double": np.float64,
         "<2 x half>": np.float16}  # fmt: skip
OPERATIONS = (
    *((name, kind) for kind in ("i32", "i64") for name in INTEGERS),
    *((name, kind) for kind in ("float", "double") for name in FLOATS),
    ("fadd", "<2 x half>"), ("cmpxchg", "i32"), ("cmpxchg", "i64"),
)  # fmt: skip
SPACES = {"global": 1, "flat": 0, "ds": 3}  # by LLVM's numbers of address spaces


def operations(chip, space):
    """Those that LLVM can compile for a chip and a space."""
    generation = int(chip[3:-2])
    lacks = {("usub_sat", "i64"), ("usub_cond", "i64")}
    if generation < 12 or space != 1:
        lacks.add(("usub_cond", "i32"))
    if generation == 9 or space != 1:
        lacks.add(("usub_sat", "i32"))
    return [one for one in OPERATIONS if one not in lacks]


def signed(values):
    return values.view(np.dtype(f"i{values.itemsize}"))


def update(number, name, kind, space):
    """Lines that change a slot of row `number`; %v{number} is what was there."""
    place, x = f"ptr addrspace({space}) %p{number}", f"%x{number}"
    if name != "cmpxchg":
        scope = 'syncscope("agent") monotonic'
        return [f"%v{number} = atomicrmw {name} {place}, {kind} {x} {scope}, {FREE}"]
    order = 'syncscope("agent") monotonic monotonic'
    return [f"%c{number} = add {kind} {x}, 1",
            f"%b{number} = cmpxchg {place}, {kind} {x}, {kind} %c{number} {order}",
            f"%v{number} = extractvalue {{ {kind}, i1 }} %b{number}, 0"]  # fmt: skip


def kernel(chip, space, returns):
    """Rows of slots are changed in turn; rows of %old get what was there, if that is asked for."""
    lines, some = [], operations(chip, space)
    for number, (name, kind) in enumerate(some):
        lines.append(f"%n{number} = add i32 %row, {number * LANES * SLOT}")
        for pointer, base in (("q", "given"), ("o", "old")):
            lines.append(f"%{pointer}{number} = getelementptr i8, ptr addrspace(1) %{base}, "
                         f"i32 %n{number}")  # fmt: skip
        where = "%slots" if space != 3 else "@shared"
        lines.append(
            f"%p{number} = getelementptr i8, ptr addrspace({space}) {where}, i32 %n{number}"
        )
        lines.append(f"%x{number} = load {kind}, ptr addrspace(1) %q{number}")
        lines += update(number, name, kind, space)
        if returns:
            lines.append(f"store {kind} %v{number}, ptr addrspace(1) %o{number}")
    count = len(some)
    shared = (
        f"@shared = internal addrspace(3) global [{count * LANES * SLOT} x i8] poison, align 16"
    )
    # LDS is filled from memory, and goes back there.
    before, after = [], []
    for number in range(count if space == 3 else 0):
        place = f"%m{number}"
        before += [f"%s{number} = add i32 %row, {number * LANES * SLOT}",
                   f"{place} = getelementptr i8, ptr addrspace(1) %slots, i32 %s{number}",
                   f"%l{number} = getelementptr i8, ptr addrspace(3) @shared, i32 %s{number}",
                   f"%f{number} = load i64, ptr addrspace(1) {place}",
                   f"store i64 %f{number}, ptr addrspace(3) %l{number}"]  # fmt: skip
        after += [f"%g{number} = load i64, ptr addrspace(3) %l{number}",
                  f"store i64 %g{number}, ptr addrspace(1) {place}"]  # fmt: skip
    body = "\n  ".join([*before, *lines, *after])
    slots = "ptr" if space == 0 else "ptr addrspace(1)"
    return f"""{HEAD}
{shared if space == 3 else ""}
define amdgpu_kernel void @k({slots} %slots, ptr addrspace(1) %given, ptr addrspace(1) %old) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %row = shl i32 %i, 3
  {body}
  ret void
}}
{TAIL}"""


def numbers(rng, kind):
    """What slots of one row hold: 8 bytes each, of which the type has the first."""
    dtype = TYPES[kind]
    if dtype in (np.uint32, np.uint64):
        values = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, LANES, dtype, endpoint=False)
        values[::3] &= dtype(3)
    else:
        values = rng.normal(size=LANES * (2 if dtype is np.float16 else 1)).astype(dtype)
        values[:2] = dtype(0.0), dtype(-0.0)
    found = np.zeros((LANES, SLOT), np.uint8)
    data = values.view(np.uint8).reshape(LANES, -1)
    found[:, : data.shape[1]] = data
    return found


def values_of(row, kind):
    nbytes = 4 if kind == "<2 x half>" else np.dtype(TYPES[kind]).itemsize
    return np.ascontiguousarray(row[:, :nbytes]).view(TYPES[kind])


def expected(name, old, x):
    if name == "cmpxchg":
        return np.where(old == x, x + np.array(1, x.dtype), old)
    with np.errstate(over="ignore"):
        return (INTEGERS | FLOATS)[name](old, x)


def drawn(cases, of):
    """A share of the cases, or all with `--full`."""
    return [case for case in cases if chosen(f"atomics {case}", of)]


@pytest.mark.parametrize(
    ("chip", "space", "returns"), drawn(itertools.product(CHIPS, SPACES, (True, False)), 5)
)
def test_atomics_are_what_numpy_says(machine, chip, space, returns):
    gpu, rng = machine(chip), np.random.default_rng(11)
    code = gpu.load(compile_for(chip, kernel(chip, SPACES[space], returns)))
    names = {item.operation for _, item in instructions(code[0], chip)}
    of_space = [
        name for name in names if name.startswith("ds_" if space == "ds" else f"{space}_atomic")
    ]
    assert len(of_space) >= 26, "LLVM makes loops of the others"
    some = operations(chip, SPACES[space])
    slots, given = (np.stack([numbers(rng, kind) for _, kind in some]) for _ in range(2))
    for number, (name, _) in enumerate(some):
        if name == "cmpxchg":
            given[number, ::2] = slots[number, ::2]
    places = [gpu.put(array.tobytes()) for array in (slots, given, np.zeros_like(slots))]
    gpu.launch(code, "k", (1, 1, 1), (LANES, 1, 1), struct.pack("<3Q", *places))
    after, before = (
        np.frombuffer(gpu.space.read(place, slots.nbytes), np.uint8).reshape(slots.shape)
        for place in (places[0], places[2])
    )
    for number, (name, kind) in enumerate(some):
        old, x, found, seen = (values_of(a[number], kind) for a in (slots, given, after, before))
        np.testing.assert_array_equal(found, expected(name, old, x), f"{name} {kind}")
        if returns:
            np.testing.assert_array_equal(seen, old, f"what was there before {name} {kind}")


def exchanged(image, chip, old, new):
    """The image with each `old` as `new`, an operation with the same fields."""
    codes = {}
    for _, row in rows(chip, 32 if int(chip[3:-2]) > 9 else 64):
        codes.setdefault(row.operation, row)
    data, count = bytearray(image.data), 0
    for at, item in instructions(image, chip):
        if item.operation == old:
            row = codes[new]
            word = int.from_bytes(data[at : at + row.size], "little")
            data[at : at + row.size] = (word & ~row.mask | row.value).to_bytes(row.size, "little")
            count += 1
    assert count
    return bytes(data)


def wraps(old, x, y):
    return np.where(old >= x, old - x, old + y)


# What LLVM never selects for LDS: an operation of the same form that it does select, and what the
# new one makes of what was there, the first operand and the second.
OTHERS = {
    "rsub_rtn_u32": ("sub_rtn_u32", np.uint32, lambda old, x, _: x - old),
    "rsub_rtn_u64": ("sub_rtn_u64", np.uint64, lambda old, x, _: x - old),
    "mskor_rtn_b32": ("cmpstore_rtn_b32", np.uint32, lambda old, x, y: old & ~x | y),
    "mskor_rtn_b64": ("cmpstore_rtn_b64", np.uint64, lambda old, x, y: old & ~x | y),
    "wrap_rtn_b32": ("cmpstore_rtn_b32", np.uint32, wraps),
    "cmpstore_rtn_f32": ("cmpstore_rtn_b32", np.float32, None),
    "cmpstore_rtn_f64": ("cmpstore_rtn_b64", np.float64, None),
    "sub_clamp_rtn_u32": ("sub_rtn_u32", np.uint32, lambda old, x, _: INTEGERS["usub_sat"](old, x)),
    "cond_sub_rtn_u32": ("sub_rtn_u32", np.uint32, lambda old, x, _: INTEGERS["usub_cond"](old, x)),
    "pk_add_rtn_f16": ("add_rtn_u32", np.float16, lambda old, x, _: old + x),
}  # fmt: skip
ONE = """
@shared = internal addrspace(3) global [64 x KIND] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %slots, ptr addrspace(1) %xs, ptr addrspace(1) %ys,
    ptr addrspace(1) %old) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %ps = getelementptr KIND, ptr addrspace(1) %slots, i32 %i
  %px = getelementptr KIND, ptr addrspace(1) %xs, i32 %i
  %py = getelementptr KIND, ptr addrspace(1) %ys, i32 %i
  %po = getelementptr KIND, ptr addrspace(1) %old, i32 %i
  %p = getelementptr KIND, ptr addrspace(3) @shared, i32 %i
  %s = load KIND, ptr addrspace(1) %ps
  %x = load KIND, ptr addrspace(1) %px
  %y = load KIND, ptr addrspace(1) %py
  store KIND %s, ptr addrspace(3) %p
  UPDATE
  store KIND %v, ptr addrspace(1) %po
  %after = load KIND, ptr addrspace(3) %p
  store KIND %after, ptr addrspace(1) %ps
  ret void
}
"""
TWO = (
    "%b = cmpxchg ptr addrspace(3) %p, KIND %x, KIND %y monotonic monotonic\n"
    "  %v = extractvalue { KIND, i1 } %b, 0"
)


def compared_and_exchanged(old, x, y):
    return np.where(old == x, y, old)


def named(name, chip):
    """What a chip calls an operation of LDS."""
    return f"ds_{name.replace('cmpstore', 'cmpst') if int(chip[3:-2]) < 11 else name}"


def having():
    """The operations that each chip has."""
    for chip in CHIPS:
        known = {row.operation for _, row in rows(chip, 32 if int(chip[3:-2]) > 9 else 64)}
        yield from ((name, chip) for name in OTHERS if named(name, chip) in known)


@pytest.mark.parametrize(("name", "chip"), drawn(having(), 5))
def test_atomics_of_lds_that_llvm_does_not_select(machine, name, chip):
    generation, (like, dtype, formula) = int(chip[3:-2]), OTHERS[name]
    wide, two = like.endswith("64"), like.startswith("cmpstore")
    gpu, kind = machine(chip), "i64" if wide else "i32"
    operation = TWO if two else f"%v = atomicrmw {like[:3]} ptr addrspace(3) %p, KIND %x monotonic"
    image, _ = gpu.load(
        compile_for(chip, HEAD + ONE.replace("UPDATE", operation).replace("KIND", kind) + TAIL)
    )
    data = exchanged(image, chip, named(like, chip), named(name, chip))
    code = image, gpu.put(data, Permission.READ | Permission.EXECUTE)
    rng, count = np.random.default_rng(3), LANES * (2 if dtype is np.float16 else 1)
    if np.dtype(dtype).kind == "f":
        s, x, y = rng.normal(size=(3, count)).astype(dtype)
        x[::2] = s[::2]
        s[:4], x[:4] = (0.0, -0.0, np.nan, 1.0), (-0.0, 0.0, np.nan, 2.0)
    else:
        s, x, y = rng.integers(0, 1 << (63 if wide else 32), (3, count)).astype(dtype)
    places = [gpu.put(array.tobytes()) for array in (s, x, y, np.zeros_like(s))]
    gpu.launch(code, "k", (1, 1, 1), (LANES, 1, 1), struct.pack("<4Q", *places))
    # Before gfx11 the operand that is compared with stands first, and the first of mskor is a mask.
    operands = (y, x) if two and generation >= 11 and formula else (x, y)
    wanted = (formula or compared_and_exchanged)(s, *operands)
    np.testing.assert_array_equal(np.frombuffer(gpu.space.read(places[0], s.nbytes), dtype), wanted)
    np.testing.assert_array_equal(np.frombuffer(gpu.space.read(places[3], s.nbytes), dtype), s)


COUNTED = (
    HEAD
    + """
declare i32 @llvm.amdgcn.ds.append.p3(ptr addrspace(3), i1)
declare i32 @llvm.amdgcn.ds.consume.p3(ptr addrspace(3), i1)
@shared = internal addrspace(3) global [4 x i32] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %flags, ptr addrspace(1) %r) #0 {
entry:
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(3) @shared, i32 2
  store i32 100, ptr addrspace(3) %p
  %pf = getelementptr i32, ptr addrspace(1) %flags, i32 %i
  %pr = getelementptr [2 x i32], ptr addrspace(1) %r, i32 %i
  %flag = load i32, ptr addrspace(1) %pf
  %acts = icmp ne i32 %flag, 0
  br i1 %acts, label %yes, label %end
yes:
  %a = call i32 @llvm.amdgcn.ds.append.p3(ptr addrspace(3) %p, i1 false)
  %b = call i32 @llvm.amdgcn.ds.consume.p3(ptr addrspace(3) %p, i1 false)
  %pr1 = getelementptr i32, ptr addrspace(1) %pr, i32 1
  store i32 %a, ptr addrspace(1) %pr
  store i32 %b, ptr addrspace(1) %pr1
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="32,32" }
"""
)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_wave_counts_its_lanes_in_lds(machine, chip):
    gpu, flags = machine(chip), np.arange(32, dtype=np.uint32) % 3
    places = [gpu.put(array.tobytes()) for array in (flags, np.zeros((32, 2), np.uint32))]
    code = gpu.load(compile_for(chip, COUNTED))
    gpu.launch(code, "k", (1, 1, 1), (32, 1, 1), struct.pack("<2Q", *places))
    found = np.frombuffer(gpu.space.read(places[1], 256), np.uint32).reshape(32, 2)
    wanted = np.where((flags != 0)[:, None], [100, 100 + np.count_nonzero(flags)], 0)
    np.testing.assert_array_equal(found, wanted)
