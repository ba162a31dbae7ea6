"""CUDA C, compiled by NVIDIA's own compiler and run on the emulated GPU."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from treadle.runtime.cuda.driver import DriverError

ARCHITECTURES = ["sm_75", "sm_80", "sm_90a", "sm_120"]


@cache
def compiled(source, arch="sm_80", *more):
    nvrtc = pytest.importorskip(
        "cuda.bindings.nvrtc", reason="cuda-bindings is missing: `pip install cuda-bindings`"
    )
    found = importlib.util.find_spec("nvidia")
    folders = [Path(f, "cu13") for f in (found.submodule_search_locations if found else [])]
    if not any(folder.joinpath("lib").exists() for folder in folders):
        pytest.skip("NVRTC is missing: `pip install nvidia-cuda-nvrtc` brings it")
    if "mma.h" in source and not any(f.joinpath("include/crt/mma.h").exists() for f in folders):
        pytest.skip("a part of mma.h is missing: `pip install nvidia-cuda-crt` brings it")
    options = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}".encode(), b"--device-int128"]
    options += [f"-I{folder / 'include'}".encode() for folder in folders]
    options += [option.encode() for option in more]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    size, get = (
        (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX) if status == 0
        else (nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    )  # fmt: skip
    text = b" " * size(program)[1]
    get(program, text)
    assert status == 0, text.decode()
    return text


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_vectors_are_added(gpus, arch):
    source = """extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = a[i] + b[i]; }"""
    a, b = (np.random.default_rng(s).standard_normal(1000).astype("f4") for s in (1, 2))
    found = gpus(arch).launch(compiled(source, arch), "add", 8, 128, np.zeros_like(a), a, b, 1000)
    np.testing.assert_array_equal(found[0], a + b)


MATMUL = """extern "C" __global__ void matmul(float *c, const float *a, const float *b, int n) {
  __shared__ float ta[16][16], tb[16][17];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    ta[y][x] = a[row * n + t + x]; tb[y][x] = b[(t + y) * n + column];
    SYNC
    for (int k = 0; k < 16; k++) sum += ta[y][k] * tb[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_in_shared_memory(gpus, threads):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, 64)).astype("f4") for _ in range(2))
    source = MATMUL.replace("SYNC", "__syncthreads();")
    gpu = gpus("sm_80", threads=threads)
    found = gpu.launch(compiled(source), "matmul", (4, 4, 1), (16, 16, 1), a * 0, a, b, 64)
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-4)


def test_a_forgotten_barrier_is_found(gpu):
    a = np.ones((64, 64), "f4")
    with pytest.raises(DriverError, match=r"never wrote|data race"):
        gpu.launch(
            compiled(MATMUL.replace("SYNC", "")), "matmul", (4, 4, 1), (16, 16, 1), a, a, a, 64
        )


def test_rows_are_reduced_by_shuffles(gpu):
    source = """extern "C" __global__ void rows(float *out, const float *in, int n) {
    __shared__ float part[8]; float s = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s = fmaxf(s, in[blockIdx.x * n + i]);
    for (int o = 16; o; o >>= 1) s = fmaxf(s, __shfl_xor_sync(~0u, s, o));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; w++) s = fmaxf(s, part[w]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(in[blockIdx.x * n + i] - s);
    sum += __shfl_down_sync(~0u, sum, 16); sum += __shfl_down_sync(~0u, sum, 8);
    sum += __shfl_down_sync(~0u, sum, 4); sum += __shfl_down_sync(~0u, sum, 2);
    sum += __shfl_down_sync(~0u, sum, 1);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) { sum = 0; for (int w = 0; w < blockDim.x / 32; w++) sum += part[w];
      out[blockIdx.x] = s + logf(sum); } }"""
    x = np.random.default_rng(4).standard_normal((6, 333)).astype("f4") * 4
    found = gpu.launch(compiled(source), "rows", 6, 128, np.zeros(6, "f4"), x, 333)[0]
    wide = x.astype("f8")
    np.testing.assert_allclose(found, np.log(np.exp(wide).sum(1)), rtol=1e-6)


def test_a_histogram_by_atomics(gpus):
    source = """extern "C" __global__ void histogram(int *out, const int *in, int n) {
    __shared__ int h[32]; if (threadIdx.x < 32) h[threadIdx.x] = 0; __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) atomicAdd(&h[in[i] % 32], 1);
    __syncthreads(); if (threadIdx.x < 32) atomicAdd(&out[threadIdx.x], h[threadIdx.x]); }"""
    x = np.random.default_rng(5).integers(0, 1000, 5000).astype("i4")
    zero = np.zeros(32, "i4")
    found = gpus("sm_80", threads=2).launch(compiled(source), "histogram", 20, 256, zero, x, 5000)
    assert (found[0] == np.bincount(x % 32, minlength=32)).all()


def test_functions_of_the_library(gpu):
    source = """__device__ __noinline__ float power(float x, int n) {
      float p = 1; for (int i = 0; i < n; i++) p *= x; return p; }
    extern "C" __global__ void f(double *out, float *x, int n) {
      int i = threadIdx.x; float v = x[i];
      out[8 * i] = sinf(v); out[8 * i + 1] = cos((double)v); out[8 * i + 2] = tgammaf(fabsf(v) + 1);
      out[8 * i + 3] = erff(v); out[8 * i + 4] = power(v, i % 5); out[8 * i + 5] = cbrtf(v);
      out[8 * i + 6] = atan2f(v, 2.0f); out[8 * i + 7] = fmod((double)v, 0.7); }"""
    import math

    x = np.concatenate([np.linspace(-5, 5, 28), [1e5, -1e5, 3e7, 123456.7]]).astype("f4")
    image = compiled(source)
    found = gpu.launch(image, "f", 1, 32, np.zeros((32, 8)), x, 32)[0]
    for i, v in enumerate(x.tolist()):
        wanted = [math.sin(v), math.cos(v), math.gamma(abs(v) + 1) if abs(v) < 30 else math.inf,
                  math.erf(v), v ** (i % 5), math.copysign(abs(v) ** (1 / 3), v),
                  math.atan2(v, 2.0), math.fmod(v, 0.7)]  # fmt: skip
        np.testing.assert_allclose(found[i], wanted, rtol=3e-6, atol=3e-7)


def test_halves_and_bfloats(gpu):
    source = """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void f(half2 *a, const half2 *b, __nv_bfloat16 *c, int n) {
      int i = threadIdx.x; a[i] = __hfma2(a[i], b[i], __float2half2_rn(0.5f));
      c[i] = __hadd(c[i], __float2bfloat16(1.5f)); }"""
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal((32, 2)).astype("f2") for _ in range(2))
    bits = (np.linspace(-4, 4, 32).astype("f4").view("u4") >> 16).astype("u2")
    found = gpu.launch(compiled(source), "f", 1, 32, a, b, bits, 32)
    expected = (a.astype("f8") * b.astype("f8") + 0.5).astype("f2")
    np.testing.assert_array_equal(found[0], expected)
    values = (bits.astype("u4") << 16).view("f4") + np.float32(1.5)
    near = (found[2].astype("u4") << 16).view("f4")
    np.testing.assert_allclose(near, values, rtol=2.0**-8)


@pytest.mark.parametrize("what", ["integers", "tensor cores"])
def test_wide_integers_and_tensor_cores(gpu, what):
    if what == "integers":
        source = """extern "C" __global__ void f(long long *a, long long *b, int n) {
          int i = threadIdx.x; long long p = __mul64hi(a[i], b[i]);
          long long q = b[i] ? a[i] / b[i] : 0, r = b[i] ? a[i] % b[i] : 0;
          a[i] = p ^ (q + r); }"""
        rng = np.random.default_rng(7)
        a = rng.integers(-(2**62), 2**62, 32)
        b = rng.integers(-1000, 1000, 32)
        found = gpu.launch(compiled(source), "f", 1, 32, a, b, 32)[0]
        for x, y, got in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0
            assert got == (x * y >> 64) ^ (q + (x - q * y if y else 0))
        return
    source = """#include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void f(float *c, const half *a, const half *b, int n) {
      __shared__ half ta[256], tb[256];
      for (int i = threadIdx.x; i < 256; i += 32) { ta[i] = a[i]; tb[i] = b[i]; }
      __syncwarp();
      unsigned r[4], s[4], p = __cvta_generic_to_shared(ta + threadIdx.x % 16 * 16 + threadIdx.x / 16 * 8);
      unsigned q = __cvta_generic_to_shared(tb + threadIdx.x % 16 * 16 + threadIdx.x / 16 * 8);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(q));
      for (int h = 0; h < 2; h++) { float d[4] = {0, 0, 0, 0};
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(s[2 * h]), "r"(s[2 * h + 1]));
        int g = threadIdx.x / 4, t = threadIdx.x % 4;
        for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 16 + 8 * h + 2 * t + i % 2] = d[i]; } }"""  # noqa: E501
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal((16, 16)).astype("f2") for _ in range(2))
    found = gpu.launch(compiled(source), "f", 1, 32, np.zeros((16, 16), "f4"), a, b, 16)[0]
    np.testing.assert_allclose(found, a.astype("f8") @ b.astype("f8"), rtol=1e-6, atol=1e-6)


def test_quotients_of_128_bits(gpu):
    source = """extern "C" __global__ void f(unsigned long long *a, unsigned long long *b, int n) {
      int i = threadIdx.x; unsigned __int128 x = ((unsigned __int128)a[i] << 64) | b[i], d = b[i] | 1;
      unsigned __int128 q = x / d; a[i] = q; b[i] = q >> 64; }"""  # noqa: E501
    rng = np.random.default_rng(9)
    a, b = (rng.integers(0, 1 << 64, 64, dtype="u8") >> rng.integers(0, 64, 64, "u8") for _ in "ab")
    found = gpu.launch(compiled(source), "f", 1, 64, a, b, 64)
    for low, high, x, y in zip(*found, a.tolist(), b.tolist(), strict=True):
        assert int(high) << 64 | int(low) == (x << 64 | y) // (y | 1)


def test_halves_are_shuffled_by_the_size_of_a_warp(gpu):
    source = """#include <cuda_fp16.h>
    extern "C" __global__ void f(half *x, int n) {
      int i = threadIdx.x; x[i] = __shfl_up_sync(~0u, x[i], 3, 16); }"""
    x = np.random.default_rng(10).standard_normal(32).astype("f2")
    found = gpu.launch(compiled(source), "f", 1, 32, x, 32)[0]
    assert found.tolist() == [x[i - 3] if i % 16 >= 3 else x[i] for i in range(32)]


@pytest.mark.parametrize(
    ("source", "message"),
    [("__device__ int g(int n) { return n; } typedef int (*F)(int); __device__ F table[1] = {g};",
      "is a function, and calls through pointers are not emulated"),
     ("__device__ __noinline__ int g(int n) { return n < 2 ? n : g(n - 1) + g(n - 2); }",
      "calls itself, which is not emulated")],
)  # fmt: skip
def test_what_is_refused_is_named(gpu, source, message):
    call = "table[n](n)" if "table" in source else "g(n)"
    source += f'extern "C" __global__ void f(int *x, int n) {{ x[0] = {call}; }}'
    with pytest.raises(DriverError, match=message):
        gpu.launch(compiled(source), "f", 1, 1, np.zeros(1, "i4"), 0)


def test_a_failed_assertion_has_its_own_error(gpu):
    source = """extern "C" __global__ void f(int *x, int n) {
      if (x[threadIdx.x] >= n) __assertfail("x < n", "f.cu", 4, "f", 1); }"""
    with pytest.raises(DriverError, match=r"thread \(7, 0, 0\): an assertion failed") as caught:
        gpu.launch(compiled(source), "f", 1, 32, np.arange(32, dtype="i4"), 7)
    assert caught.value.code == "CUDA_ERROR_ASSERT"


LLVM_ROWS = """target triple = "nvptx64-nvidia-cuda"
@part = internal addrspace(3) global [32 x float] poison, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
define ptx_kernel void @rows(ptr addrspace(1) %out, ptr addrspace(1) %in, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %start = mul i32 %row, %n
  br label %loop
loop:
  %i = phi i32 [%t, %entry], [%next, %more]
  %sum = phi float [0.0, %entry], [%total, %more]
  %in.range = icmp slt i32 %i, %n
  br i1 %in.range, label %more, label %done
more:
  %at = add i32 %start, %i
  %p = getelementptr float, ptr addrspace(1) %in, i32 %at
  %x = load float, ptr addrspace(1) %p
  %total = fadd float %sum, %x
  %next = add i32 %i, 32
  br label %loop
done:
  %q = getelementptr float, ptr addrspace(3) @part, i32 %t
  store float %sum, ptr addrspace(3) %q
  call void @llvm.nvvm.barrier0()
  %other = xor i32 %t, 1
  %o = getelementptr float, ptr addrspace(3) @part, i32 %other
  %y = load float, ptr addrspace(3) %o
  %s0 = fadd float %sum, %y
SHUFFLES
  %first = icmp eq i32 %t, 0
  br i1 %first, label %store, label %end
store:
  %r = getelementptr float, ptr addrspace(1) %out, i32 %row
  store float %s4, ptr addrspace(1) %r
  br label %end
end:
  ret void
}
"""


def test_ptx_of_the_embedded_llvm(gpu):
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    lines = []
    for i, step in enumerate((2, 4, 8, 16)):
        call = f"call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %s{i}, i32 {step}, i32 31)"
        lines += [f"  %m{i} = {call}", f"  %s{i + 1} = fadd float %s{i}, %m{i}"]
    source = LLVM_ROWS.replace("SHUFFLES", "\n".join(lines))
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu="sm_80", opt=2)
    ptx = machine.emit_assembly(llvm.parse_assembly(source, llvm.create_context()))
    x = np.random.default_rng(9).standard_normal((5, 77)).astype("f4")
    found = gpu.launch(ptx, "rows", 5, 32, np.zeros(5, "f4"), x, 77)[0]
    np.testing.assert_allclose(found, x.astype("f8").sum(1), rtol=1e-5, atol=1e-5)
