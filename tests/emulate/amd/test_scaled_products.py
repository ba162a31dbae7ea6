"""gfx950's products of floats of 8 and of 4 bits, with scales of their own, beside NumPy.

Where elements lie is written out here as AMD's composable_kernel has it in the tables of its test
of these instructions (test/mx_mfma_op), which its blog on matrix cores of CDNA4 and Triton agree
with: the numbers along k that a group of lanes has, in order.
"""

import struct

import ml_dtypes
import numpy as np
import pytest

from treadle.emulate.amd.matrix_layouts import unit_of_formats
from treadle.emulate.kfd.dispatch import KernelFault

from .conftest import compile_for, instructions

CHIP = "gfx950"
SHAPES = {32: "32x32x64", 16: "16x16x128"}
TYPES = {0: ml_dtypes.float8_e4m3fn, 1: ml_dtypes.float8_e5m2, 4: ml_dtypes.float4_e2m1fn}
BITS = {0: 8, 1: 8, 2: 6, 3: 6, 4: 4}
# The numbers along k of each group of lanes, in which a lane is a row of A or a column of B.
EIGHTS = {
    32: [[*range(16), *range(32, 48)], [*range(16, 32), *range(48, 64)]],
    16: [[*range(16), *range(64, 80)], [*range(16, 32), *range(80, 96)],
         [*range(32, 48), *range(96, 112)], [*range(48, 64), *range(112, 128)]],
}  # fmt: skip
FOURS = {
    32: [[*range(32)], [*range(32, 64)]],
    16: [[*range(32)], [*range(32, 64)], [*range(64, 96)], [*range(96, 128)]],
}
HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare SUMS @llvm.amdgcn.NAME(LEFT, RIGHT, SUMS, i32, i32, i32, i32, i32, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc,
    ptr addrspace(1) %ps, ptr addrspace(1) %pt, ptr addrspace(1) %pd) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %qa = getelementptr LEFT, ptr addrspace(1) %pa, i32 %i
  %qb = getelementptr RIGHT, ptr addrspace(1) %pb, i32 %i
  %qc = getelementptr SUMS, ptr addrspace(1) %pc, i32 %i
  %qs = getelementptr i32, ptr addrspace(1) %ps, i32 %i
  %qt = getelementptr i32, ptr addrspace(1) %pt, i32 %i
  %qd = getelementptr SUMS, ptr addrspace(1) %pd, i32 %i
  %a = load LEFT, ptr addrspace(1) %qa, align 4
  %b = load RIGHT, ptr addrspace(1) %qb, align 4
  %c = load SUMS, ptr addrspace(1) %qc, align 4
  %s = load i32, ptr addrspace(1) %qs
  %t = load i32, ptr addrspace(1) %qt
  %d = call SUMS @llvm.amdgcn.NAME(LEFT %a, RIGHT %b, SUMS %c, i32 A_FORMAT, i32 B_FORMAT,
      i32 A_BYTE, i32 A_SCALE, i32 B_BYTE, i32 B_SCALE)
  store SUMS %d, ptr addrspace(1) %qd, align 4
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""


def compiled(side, formats, bytes_=(0, 0), scales=("%s", "%t")):
    """A kernel of one product; where both scales are the number 0, LLVM takes the form without."""
    left, right = (f"<{BITS[one]} x i32>" for one in formats)
    types = ".".join(f"v{BITS[one]}i32" for one in formats)
    words = {
        "NAME": f"mfma.scale.f32.{SHAPES[side]}.f8f6f4.{types}",
        "LEFT": left, "RIGHT": right, "SUMS": f"<{side * side // 64} x float>",
        "A_FORMAT": formats[0], "B_FORMAT": formats[1], "A_BYTE": bytes_[0], "B_BYTE": bytes_[1],
        "A_SCALE": scales[0], "B_SCALE": scales[1],
    }  # fmt: skip
    text = HEAD
    for word, value in words.items():
        text = text.replace(word, str(value))
    return compile_for(CHIP, text)


def where(side, number):
    return (FOURS if BITS[number] == 4 else EIGHTS)[side]


def packed(lines, side, number):
    """What lanes hold of rows of A, or of columns of B."""
    codes = lines.astype(TYPES[number]).view(np.uint8)
    held = np.concatenate([codes[:, numbers] for numbers in where(side, number)])
    if BITS[number] == 4:
        held = held[:, ::2] | held[:, 1::2] << 4
    return held.astype(np.uint8).tobytes()


def place_of_sums(side):
    """The row and the column of each lane's sums: groups of four rows, as of other products."""
    lane, n = np.mgrid[:64, : side * side // 64]
    return n // 4 * (4 * (64 // side)) + lane // side * 4 + n % 4, lane % side


def whole(lines, scales):
    """The numbers that are meant: 32 neighbours along k have one scale."""
    powers = np.where(scales == 255, np.nan, 2.0 ** (scales.astype(float) - 127))
    return lines.astype(float) * np.repeat(powers, 32, 1)


def drawn(rng, side, number):
    depth = {32: 64, 16: 128}[side]
    codes = rng.integers(0, 16 if BITS[number] == 4 else 256, (side, depth), np.uint8)
    numbers = codes.view(TYPES[number]).astype(float)
    return np.where(np.isfinite(numbers), numbers, 1.5).astype(TYPES[number])


def product(gpu, code, side, formats, a, b, c, words):
    """D of a launch; `words` are the registers with scales, of A and of B."""
    rows, columns = place_of_sums(side)
    sums = c[rows, columns].astype(np.float32).tobytes()
    held = [packed(a, side, formats[0]), packed(b, side, formats[1]), sums]
    held += [word.tobytes() for word in words]
    places = [gpu.put(data) for data in (*held, bytes(4 * side * side))]
    gpu.launch(gpu.load(code), "k", (1, 1, 1), (64, 1, 1), struct.pack("<6Q", *places))
    found = np.frombuffer(gpu.space.read(places[-1], 4 * side * side), np.float32)
    result = np.zeros((side, side), np.float32)
    result[rows, columns] = found.reshape(rows.shape)
    return result


def registers(rng, scales, byte):
    """One scale a lane, in one of the four bytes of its register; the others hold anything."""
    words = rng.integers(0, 256, (64, 4), np.uint8)
    words[:, byte] = scales.T.ravel()
    return words


def assert_near(found, a, b, c):
    """Sums are right but for what float64 and the last rounding cost."""
    expected, size = a @ b.T + c, np.abs(a) @ np.abs(b.T) + np.abs(c)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    error = np.abs(found - expected)
    known = ~np.isnan(expected)
    assert (error <= np.abs(expected) * 2.0**-24 + size * 2.0**-44)[known].all()


CASES = [(side, formats) for side in SHAPES for formats in ((0, 0), (0, 1), (1, 0), (1, 1), (4, 4))]


@pytest.mark.parametrize(("side", "formats"), CASES)
@pytest.mark.parametrize("bytes_", [(0, 0), (1, 2), (3, 1), (2, 3)])
def test_scaled_products_are_what_numpy_says(machine, side, formats, bytes_):
    code = compiled(side, formats, bytes_)
    rng = np.random.default_rng(side + 10 * formats[0] + formats[1])
    a, b = (drawn(rng, side, number) for number in formats)
    c = rng.standard_normal((side, side)).astype(np.float32)
    scales = [rng.integers(117, 137, (side, 64 // side), np.uint8) for _ in range(2)]
    words = [registers(rng, scale, byte) for scale, byte in zip(scales, bytes_, strict=True)]
    found = product(machine(CHIP), code, side, formats, a, b, c, words)
    assert_near(found, whole(a, scales[0]), whole(b, scales[1]), c.astype(float))


@pytest.mark.parametrize(("side", "formats"), CASES)
def test_products_without_scales_are_what_numpy_says(machine, side, formats):
    code = compiled(side, formats, scales=(0, 0))
    gpu = machine(CHIP)
    names = {item.operation for _, item in instructions(gpu.load(code)[0], CHIP)}
    assert f"v_mfma_f32_{SHAPES[side]}_f8f6f4" in names
    rng = np.random.default_rng(side)
    a, b = (drawn(rng, side, number) for number in formats)
    c = rng.standard_normal((side, side)).astype(np.float32)
    words = [np.zeros(64, np.uint32)] * 2
    found = product(gpu, code, side, formats, a, b, c, words)
    assert_near(found, a.astype(float), b.astype(float), c.astype(float))


@pytest.mark.parametrize("side", SHAPES)
def test_a_scale_that_is_no_number_spoils_its_row_or_column_alone(machine, side):
    rng = np.random.default_rng(3)
    a, b = (drawn(rng, side, 4) for _ in range(2))
    scales = [np.full((side, 64 // side), 127, np.uint8) for _ in range(2)]
    scales[0][5, 1], scales[1][9, 0] = 255, 255
    words = [registers(rng, scale, 0) for scale in scales]
    found = product(machine(CHIP), compiled(side, (4, 4)), side, (4, 4), a, b,
                    np.zeros((side, side)), words)  # fmt: skip
    spoiled = np.zeros((side, side), bool)
    spoiled[5], spoiled[:, 9] = True, True
    np.testing.assert_array_equal(np.isnan(found), spoiled)
    exact = a.astype(float) @ b.astype(float).T
    np.testing.assert_array_equal(found[~spoiled], exact[~spoiled])


def test_the_extremes_of_scales_are_powers_of_two(machine):
    """2 ** -127 for the byte 0, and 2 ** 127 for 254: beside one another they are 1."""
    rng = np.random.default_rng(4)
    a, b = (drawn(rng, 32, 0) for _ in range(2))
    words = [registers(rng, np.full((32, 2), byte, np.uint8), 0) for byte in (0, 254)]
    found = product(machine(CHIP), compiled(32, (0, 0)), 32, (0, 0), a, b,
                    np.zeros((32, 32)), words)  # fmt: skip
    assert_near(found, a.astype(float), b.astype(float), np.zeros((32, 32)))


@pytest.mark.parametrize("side", SHAPES)
@pytest.mark.parametrize("number", [0, 4])
def test_elements_lie_where_composable_kernel_says(side, number):
    for word in ("", "scale_"):
        unit = unit_of_formats(f"v_mfma_{word}f32_{SHAPES[side]}_f8f6f4", number, number)
        for group, numbers in enumerate(where(side, number)):
            for element, k in enumerate(numbers):
                for line in range(side):
                    assert unit.left(line, k, 0) == (line + side * group, element)
                    assert unit.right(line, k, 0) == (line + side * group, element)


@pytest.mark.parametrize("formats", [(2, 2), (3, 3), (0, 4), (4, 1), (0, 2)])
def test_formats_whose_places_are_not_known_are_a_fault_by_name(machine, formats):
    gpu, data = machine(CHIP), bytes(64 * 64)
    places = [gpu.put(data) for _ in range(6)]
    code = gpu.load(compiled(32, formats))
    with pytest.raises(KernelFault, match=r"v_mfma_scale_f32_32x32x64_f8f6f4"):
        gpu.launch(code, "k", (1, 1, 1), (64, 1, 1), struct.pack("<6Q", *places))
