// Programs for test_hipcc.py, written against HIP's own headers.

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#define KERNEL extern "C" __global__ void

static __device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }

KERNEL functions(float *out, const float *x, int count)
{
    int i = place();
    if (i < count) out[i] = sinf(x[i]) + expf(-fabsf(x[i])) * powf(fabsf(x[i]), 0.5f);
}

// Sums of workgroups by shared memory, then of all by an atomic operation.
KERNEL sum(float *out, const float *x, int count)
{
    __shared__ float part[256];
    float mine = 0;
    for (int i = place(); i < count; i += gridDim.x * blockDim.x) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int k = 128; k; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

// Sums of waves by shuffles, and which of their lanes have a number above 0.
KERNEL waves(int *sums, unsigned long long *votes, const int *x)
{
    int i = place(), total = x[i];
    for (int k = warpSize / 2; k; k /= 2) total += __shfl_xor(total, k);
    sums[i] = total;
    votes[i] = __ballot(x[i] > 0);
}

// Bits of integers, and high halves of products.
KERNEL bits(unsigned *out, const unsigned *x, int count)
{
    int i = place();
    if (i >= count) return;
    unsigned a = x[i];
    out[i] = __popc(a);
    out[count + i] = __clz(a);
    out[2 * count + i] = __ffs(a);
    out[3 * count + i] = __brev(a);
    out[4 * count + i] = __umulhi(a, 0x9E3779B9u);
    out[5 * count + i] = __byte_perm(a, ~a, 0x5140);
}

// Pairs of halves: a fused product and sum.
KERNEL halves(__half2 *out, const __half2 *x, const __half2 *y, int count)
{
    int i = place();
    if (i < count) out[i] = __hfma2(x[i], y[i], x[i]);
}

// The largest of float64 by compare and swap, in memory of 64 bits.
KERNEL largest(double *out, const double *x, int count)
{
    int i = place();
    if (i >= count) return;
    unsigned long long *to = (unsigned long long *)out, old = *to, seen;
    do {
        seen = old;
        if (__longlong_as_double(seen) >= x[i]) return;
        old = atomicCAS(to, seen, __double_as_longlong(x[i]));
    } while (old != seen);
}
