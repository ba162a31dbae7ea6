// Kernels that programs.c launches.

extern "C" __global__ void add(float *sum, const float *a, const float *b, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i];
}

extern "C" __global__ void scale(float *values, float factor, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        values[i] *= factor;
}

// The sum of all values: of each workgroup's by shared memory, of all by an atomic addition.
extern "C" __global__ void total(unsigned *sum, const unsigned *values, int count)
{
    extern __shared__ unsigned part[];
    unsigned mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        mine += values[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

// Bytes backwards within each row of 64, by memory of each thread's own.
extern "C" __global__ void backwards(const unsigned char *in, unsigned char *out)
{
    unsigned char row[64];
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 64;
    for (int i = 0; i < 64; i++) row[(i * 37 + in[at]) % 64] = in[at + i];
    for (int i = 0; i < 64; i++) out[at + 63 - i] = row[(i * 37 + in[at]) % 64];
}
