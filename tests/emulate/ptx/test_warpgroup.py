"""wgmma with matrices in every layout that its descriptors name."""

import ml_dtypes
import numpy as np
import pytest

from treadle.runtime.cuda.driver import DriverError

WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}
COLUMNS = 16


def offset(mode, along, across, row, byte):
    """Where a byte lies: rows of 16 to 128 bytes, eights of rows `across` apart, swizzled."""
    width = WIDTHS[mode]
    at = row // 8 * across + byte // width * along + row % 8 * width + byte % width
    return at ^ ((at >> 7 & (width // 16 - 1)) << 4 if mode else 0)


def placed(matrix, mode, along, across, size):
    """The bytes of a matrix (rows, contiguous) in shared memory."""
    raw = np.ascontiguousarray(matrix).view("u1").reshape(len(matrix), -1)
    memory = np.zeros(size, "u1")
    for row in range(raw.shape[0]):
        for byte in range(raw.shape[1]):
            memory[offset(mode, along, across, row, byte)] = raw[row, byte]
    return memory


def descriptor(start, mode, leading, stride):
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


ONES = {"f32": "0f3F800000", "f16": "0x3C003C00", "s32": 1}


def kernel(kind, sums, depth, a, b, extra, registers=COLUMNS // 2):
    """Adds the product of matrices in shared memory, which it fills, to ones."""
    zero = " ".join(f"mov.b32 %d{i}, {ONES[sums]};" for i in range(registers))
    store = " ".join(f"st.global.b32 [%x1+{4 * i}], %d{i};" for i in range(registers))
    size = 4 * registers
    registers = ", ".join(f"%d{i}" for i in range(registers))
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{ .reg .b64 %x<4>, %a, %b;
.reg .b32 %r<8>, %d<16>; .reg .pred %p; .shared .align 1024 .b8 tile[16384];
mov.u32 %r0, %tid.x; ld.param.u64 %x0, [in]; ld.param.u64 %x1, [out];
mad.wide.u32 %x0, %r0, 128, %x0; mad.lo.u32 %r1, %r0, 128, 0; mov.u32 %r2, 0;
FILL: ld.global.u32 %r3, [%x0]; st.shared.u32 [%r1], %r3; add.u64 %x0, %x0, 4;
add.u32 %r1, %r1, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 32; @%p bra FILL;
fence.proxy.async.shared::cta; bar.sync 0; mov.u64 %a, {a}; mov.u64 %b, {b}; {zero}
setp.eq.u32 %p, 0, 0; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{COLUMNS}k{depth}.{sums}.{kind}.{kind} {{{registers}}}, %a, %b,
%p{extra}; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mad.wide.u32 %x1, %r0, {size}, %x1; {store} ret; }}"""


def gathered(found):
    """D from what each thread stored: rows of warps, pairs of columns."""
    result = np.zeros((64, COLUMNS), found.dtype)
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(COLUMNS // 2):
            result[16 * warp + g + 8 * (i // 2 % 2), i // 4 * 8 + 2 * t + i % 2] = found[thread, i]
    return result


WRITES = {
    "the first byte": 0, "the last word of A": 128 * 64 - 4, "the first of B": 8192,
    "the last of B": 8192 + 128 * COLUMNS - 4,
}  # fmt: skip


@pytest.mark.parametrize("offset_", WRITES.values(), ids=WRITES)
def test_what_a_product_reads_is_not_written_before_the_wait(gpu, offset_):
    """The second slice of 16 from swizzled rows of 64, which begins inside of a row."""
    words = [descriptor(start + 32, 1, 16, 1024) for start in (0, 8192)]
    text = kernel("f16", "f32", 16, *words, ", 1, 1, 0, 0")
    write = f"mov.u32 %r5, {offset_}; st.shared.u32 [%r5], %r5;"
    wait = "wgmma.wait_group.sync.aligned 0;"
    memory, result = np.zeros(16384, "u1"), np.zeros((128, COLUMNS // 2), "f4")
    early = text.replace(wait, write + wait)
    with pytest.raises(DriverError, match=rf"at offset {offset_} .*a wgmma .* of warp . may still"):
        gpu.launch(early, "k", 1, 128, memory, result)
    other = type(gpu)(gpu.context.driver.compile_ir)
    other.launch(text.replace(wait, wait + "bar.sync 0;" + write), "k", 1, 128, memory, result)


def test_what_was_stored_is_fenced_for_products(gpu):
    """By those who stored, or behind the barrier by those who multiply."""
    words = [descriptor(start, 1, 16, 1024) for start in (0, 8192)]
    text = kernel("f16", "f32", 16, *words, ", 1, 1, 0, 0")
    fence, barrier = "fence.proxy.async.shared::cta;", "bar.sync 0;"
    memory, result = np.zeros(16384, "u1"), np.zeros((128, COLUMNS // 2), "f4")
    later = text.replace(f"{fence} {barrier}", f"{barrier} {fence}")
    gpu.launch(later, "k", 1, 128, memory, result)
    with pytest.raises(DriverError, match=r"which thread .* stored with no fence.proxy.async"):
        gpu.launch(text.replace(fence, ""), "k", 1, 128, memory, result)


def test_older_groups_of_products_are_waited_for(gpu):
    """Of two products the first has been waited for: its matrices may be written."""
    words = [descriptor(start, 1, 16, 1024) for start in (0, 8192)]
    text = kernel("f16", "f32", 16, *words, ", 1, 1, 0, 0")
    multiply = text[text.index("wgmma.mma_async") : text.index("wgmma.wait_group")]
    second = multiply.replace("%a, %b", "%b, %b")
    text = text.replace(multiply, multiply + second)
    wait, write = "wgmma.wait_group.sync.aligned ", "mov.u32 %r5, {}; st.shared.u32 [%r5], %r5;"
    memory, result = np.zeros(16384, "u1"), np.zeros((128, COLUMNS // 2), "f4")
    one = wait + "1; bar.sync 0;"
    gpu.launch(text.replace(wait + "0;", one + write.format(64)), "k", 1, 128, memory, result)
    with pytest.raises(DriverError, match="may still read"):
        gpu.launch(text.replace(wait + "0;", one + write.format(8192)), "k", 1, 128, memory, result)


@pytest.mark.parametrize("kind", ["f16", "e4m3"])
def test_sums_of_halves(gpu, kind):
    """Two sums a register, each rounded once: just above 2049 is 2050, not 2048."""
    depth, dtype = (16, np.float16) if kind == "f16" else (32, ml_dtypes.float8_e4m3fn)
    rng = np.random.default_rng(12)
    a, b = ((rng.integers(-8, 9, (n, depth)) / 4).astype(dtype) for n in (64, COLUMNS))
    a[5], b[3] = 0, 0
    a[5, :2], b[3, :2] = [64, 2**-7], [32, 2**-7]
    memory = np.concatenate([placed(m, 0, 1024, 128, 8192) for m in (a, b)])
    words = [descriptor(start, 0, 1024, 128) for start in (0, 8192)]
    extra = ", 1, 1" + (", 0, 0" if kind == "f16" else "")
    text = kernel(kind, "f16", depth, *words, extra, registers=COLUMNS // 4)
    *_, found = gpu.launch(text, "k", 1, 128, memory, np.zeros((128, COLUMNS // 2), "f2"))
    expected = (1 + a.astype("f8") @ b.astype("f8").T).astype("f2")
    assert expected[5, 3] == 2050
    np.testing.assert_array_equal(gathered(found), expected)


def test_pairs_of_types_that_no_processor_multiplies(gpu):
    for text in (
        kernel("bf16", "f16", 16, 0, 0, ", 1, 1, 0, 0", registers=COLUMNS // 4),
        kernel("s8", "f32", 32, 0, 0, ", 1, 1"),
    ):
        with pytest.raises(DriverError, match=r"line 12: wgmma.*is not emulated"):
            gpu.launch(text, "k", 1, 128, np.zeros(1), np.zeros(1))


CASES = [("f16", np.float16, 16), ("bf16", ml_dtypes.bfloat16, 16), ("tf32", np.float32, 8),
         ("e4m3", ml_dtypes.float8_e4m3fn, 32), ("s8", np.int8, 32)]  # fmt: skip


@pytest.mark.parametrize("mode", WIDTHS)
@pytest.mark.parametrize(("kind", "dtype", "depth"), CASES)
def test_products_along_k(gpu, kind, dtype, depth, mode):
    rng = np.random.default_rng(9)
    a = (rng.integers(-8, 9, (64, depth)) / (1 if kind == "s8" else 4)).astype(dtype)
    b = (rng.integers(-8, 9, (COLUMNS, depth)) / (1 if kind == "s8" else 4)).astype(dtype)
    width = WIDTHS[mode]
    leading, stride = (1024, 128) if mode == 0 else (16, 8 * width)
    memory = np.concatenate([placed(m, mode, leading, stride, 8192) for m in (a, b)])
    sums = "s32" if kind == "s8" else "f32"
    extra = "" if kind == "s8" else ", 1, -1" + (", 0, 0" if kind in ("f16", "bf16") else "")
    words = [descriptor(start, mode, leading, stride) for start in (0, 8192)]
    result = np.zeros((128, COLUMNS // 2), "i4" if sums == "s32" else "f4")
    text = kernel(kind, sums, depth, *words, extra)
    *_, found = gpu.launch(text, "k", 1, 128, memory, result)
    product = a.astype("f8") @ b.astype("f8").T
    expected = 1 + product if kind == "s8" else 1 - product
    np.testing.assert_array_equal(gathered(found), expected)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_products_of_transposed_halves(gpu, mode):
    """Both matrices with k as the outer dimension: rows of k, pieces along m and n."""
    rng = np.random.default_rng(10)
    a, b = ((rng.integers(-8, 9, (16, n)) / 4).astype("f2") for n in (64, COLUMNS))
    width = WIDTHS[mode]
    leading, stride = 2048, 8 * width
    memory = np.concatenate([placed(m, mode, leading, stride, 8192) for m in (a, b)])
    words = [descriptor(start, mode, leading, stride) for start in (0, 8192)]
    text = kernel("f16", "f32", 16, *words, ", 1, 1, 1, 1")
    *_, found = gpu.launch(text, "k", 1, 128, memory, np.zeros((128, COLUMNS // 2), "f4"))
    np.testing.assert_array_equal(gathered(found), 1 + a.astype("f8").T @ b.astype("f8"))
