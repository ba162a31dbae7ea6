// Kernels for test_hip.py. No headers of HIP's are needed.

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define KERNEL extern "C" __global__ void

typedef unsigned long long u64;

static __device__ int item() { return __builtin_amdgcn_workitem_id_x(); }
static __device__ int group() { return __builtin_amdgcn_workgroup_id_x(); }
static __device__ int items() { return __builtin_amdgcn_workgroup_size_x(); }
static __device__ int place() { return group() * items() + item(); }
static __device__ int groups() { return __builtin_amdgcn_grid_size_x() / items(); }
static __device__ void barrier()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
static __device__ float shuffled(float x, int lane)
{
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * lane, __builtin_bit_cast(int, x)));
}
static __device__ int lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

KERNEL vector_add(float *sum, const float *a, const float *b, int count)
{
    for (int i = place(); i < count; i += groups() * items()) sum[i] = a[i] + b[i];
}

// The sum of each workgroup: within waves by shuffles, of waves in shared memory.
KERNEL reduce(float *sums, const float *x, int count)
{
    __shared__ float part[32];
    float mine = 0;
    for (int i = place(); i < count; i += groups() * items()) mine += x[i];
    int width = __builtin_amdgcn_wavefrontsize();
    for (int away = width / 2; away; away /= 2) mine += shuffled(mine, lane() ^ away);
    if (lane() == 0) part[item() / width] = mine;
    barrier();
    if (item() == 0) {
        float all = 0;
        for (int i = 0; i < items() / width; i++) all += part[i];
        sums[group()] = all;
    }
}

// Tiles of 16 rows by way of shared memory.
KERNEL transpose(float *out, const float *x, int rows, int columns)
{
    __shared__ float tile[16][17];
    int across = (columns + 15) / 16, row = group() / across * 16, column = group() % across * 16;
    int i = item() / 16, j = item() % 16;
    if (row + i < rows && column + j < columns) tile[i][j] = x[(row + i) * columns + column + j];
    barrier();
    if (column + i < columns && row + j < rows) out[(column + i) * rows + row + j] = tile[j][i];
}

// Sums, extremes and a counter that wraps, of global memory.
KERNEL atomics(int *whole, float *real, u64 *wide, double *large, const int *x, int count)
{
    int i = place();
    if (i >= count) return;
    __atomic_fetch_add(&whole[0], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_max(&whole[1], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_min(&whole[2], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_xor(&whole[3], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_or(&whole[4], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_and(&whole[5], x[i], __ATOMIC_RELAXED);
    __atomic_fetch_add(&wide[0], (u64)x[i] << 20, __ATOMIC_RELAXED);
    __atomic_fetch_add(real, (float)x[i], __ATOMIC_RELAXED);
    __atomic_fetch_add(large, (double)x[i], __ATOMIC_RELAXED);
    // A maximum of magnitudes, by exchanges that compare.
    int mine = x[i] < 0 ? -x[i] : x[i], seen = whole[6];
    while (seen < mine && !__atomic_compare_exchange_n(
        &whole[6], &seen, mine, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

// Sums of all before and of itself, in each workgroup.
KERNEL scan(int *out, const int *x)
{
    __shared__ int sums[2][256];
    int i = item(), now = 0;
    sums[0][i] = x[place()];
    barrier();
    for (int away = 1; away < items(); away *= 2, now ^= 1) {
        sums[now ^ 1][i] = sums[now][i] + (i >= away ? sums[now][i - away] : 0);
        barrier();
    }
    out[place()] = sums[now][i];
}

KERNEL softmax(float *out, const float *x, int columns)
{
    __shared__ float part[256];
    const float *row = x + group() * columns;
    float most = -__builtin_inff(), total = 0;
    for (int j = item(); j < columns; j += items()) most = __builtin_fmaxf(most, row[j]);
    part[item()] = most;
    barrier();
    for (int half = items() / 2; half; half /= 2) {
        if (item() < half) part[item()] = __builtin_fmaxf(part[item()], part[item() + half]);
        barrier();
    }
    most = part[0];
    barrier();
    for (int j = item(); j < columns; j += items()) total += __builtin_expf(row[j] - most);
    part[item()] = total;
    barrier();
    for (int half = items() / 2; half; half /= 2) {
        if (item() < half) part[item()] += part[item() + half];
        barrier();
    }
    for (int j = item(); j < columns; j += items())
        out[group() * columns + j] = __builtin_expf(row[j] - most) / part[0];
}

// 16 by 16 results of each workgroup, along tiles of 16.
template <typename T> static __device__ void product(T *out, const T *a, const T *b, int n)
{
    __shared__ T left[16][17], right[16][17];
    int across = (n + 15) / 16, i = item() / 16, j = item() % 16;
    int row = group() / across * 16 + i, column = group() % across * 16 + j;
    T total = 0;
    for (int first = 0; first < n; first += 16) {
        left[i][j] = row < n && first + j < n ? a[row * n + first + j] : T(0);
        right[i][j] = first + i < n && column < n ? b[(first + i) * n + column] : T(0);
        barrier();
        for (int k = 0; k < 16; k++) total += left[i][k] * right[k][j];
        barrier();
    }
    if (row < n && column < n) out[row * n + column] = total;
}
KERNEL matmul_half(_Float16 *out, const _Float16 *a, const _Float16 *b, int n) { product(out, a, b, n); }
KERNEL matmul_single(float *out, const float *a, const float *b, int n) { product(out, a, b, n); }
KERNEL matmul_double(double *out, const double *a, const double *b, int n) { product(out, a, b, n); }

// A bitonic sort of 256 in each workgroup.
KERNEL sort(int *out, const int *x)
{
    __shared__ int all[256];
    int i = item();
    all[i] = x[place()];
    barrier();
    for (int size = 2; size <= 256; size *= 2)
        for (int away = size / 2; away; away /= 2) {
            int other = i ^ away;
            if (other > i) {
                int a = all[i], b = all[other];
                if ((a > b) == ((i & size) == 0)) all[i] = b, all[other] = a;
            }
            barrier();
        }
    out[place()] = all[i];
}

KERNEL histogram(unsigned *bins, const unsigned char *x, int count)
{
    __shared__ unsigned mine[256];
    mine[item()] = 0;
    barrier();
    for (int i = place(); i < count; i += groups() * items())
        __atomic_fetch_add(&mine[x[i]], 1u, __ATOMIC_RELAXED);
    barrier();
    __atomic_fetch_add(&bins[item()], mine[item()], __ATOMIC_RELAXED);
}

// Functions of floats, one in each row.
KERNEL functions(float *out, const float *x, int count)
{
    int i = place();
    if (i >= count) return;
    float v = x[i], u = __builtin_fabsf(v);
    out[0 * count + i] = __builtin_expf(v);
    out[1 * count + i] = __builtin_logf(u);
    out[2 * count + i] = __builtin_sqrtf(u);
    out[3 * count + i] = 1 / v;
    out[4 * count + i] = __builtin_floorf(v) + __builtin_ceilf(v) + __builtin_truncf(v);
    out[5 * count + i] = __builtin_fmaf(v, v, -1);
    out[6 * count + i] = __builtin_exp2f(v);
    out[7 * count + i] = __builtin_log10f(u);
    out[8 * count + i] = __builtin_ldexpf(v, i % 64 - 32);
    out[9 * count + i] = __builtin_rintf(v) + __builtin_roundf(v);
}

// Quotients and remainders of 64 and 32 bits, with signs and without.
KERNEL divisions(long long *out, const long long *a, const long long *b, int count)
{
    int i = place();
    if (i >= count) return;
    long long x = a[i], y = b[i];
    out[0 * count + i] = x / y;
    out[1 * count + i] = x % y;
    out[2 * count + i] = (u64)x / (u64)y;
    out[3 * count + i] = (u64)x % (u64)y;
    out[4 * count + i] = (int)x / ((int)y | 1);
    out[5 * count + i] = (unsigned)x % ((unsigned)y | 1);
    out[6 * count + i] = (long long)(((__int128)x * y) >> 64);
    out[7 * count + i] = x << (y & 63) ^ x >> (y & 31);
}

// Which items of a wave have an odd number, how many of them are before each, and the first's.
KERNEL votes(int *out, const int *x)
{
    bool odd = x[place()] & 1;
    u64 mask = __builtin_amdgcn_wavefrontsize() == 64 ? __builtin_amdgcn_ballot_w64(odd)
                                                      : __builtin_amdgcn_ballot_w64(odd) & 0xFFFFFFFF;
    int before = __builtin_popcountll(mask & ((1ull << lane()) - 1));
    int first = __builtin_amdgcn_readfirstlane(x[place()]);
    out[3 * place()] = before;
    out[3 * place() + 1] = __builtin_popcountll(mask);
    out[3 * place() + 2] = first;
}

// A call by a pointer, which differs between items, of functions that are not inlined.
typedef int (*Step)(int);
static __device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
static __device__ __attribute__((noinline)) int square(int x) { return x * x; }
static __device__ __attribute__((noinline)) int collatz(int x)
{
    int steps = 0;
    while (x > 1) x = x % 2 ? 3 * x + 1 : x / 2, steps++;
    return steps;
}
KERNEL calls(int *out, const int *x)
{
    static const Step steps[3] = {twice, square, collatz};
    int i = place();
    out[i] = steps[i % 3](x[i]);
}

// Memory of an item's own, at places that are not known before, and an argument by value.
struct Weights { float factor[5]; short shift; char sign; };
KERNEL filter(float *out, const float *x, Weights weights, int count)
{
    float ring[8];
    int i = place();
    if (i >= count) return;
    for (int k = 0; k < 8; k++) ring[(k * 3 + i) % 8] = x[(i + k) % count];
    float total = 0;
    for (int k = 0; k < 5; k++) total += weights.factor[k] * ring[(k * 3 + i + weights.shift) % 8];
    out[i] = weights.sign < 0 ? -total : total;
}
