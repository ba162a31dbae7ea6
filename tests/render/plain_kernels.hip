// Softmax and layer norm of rows of 1024 numbers and a matmul, as HIP is written by hand without
// vectors, assembly or a library: what instruction_counts.py counts beside treadle's kernels.

#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256))) void
#define DEVICE static __attribute__((device, always_inline))
#define SHARED __attribute__((shared))

enum { THREADS = 256, ROW = 1024, EACH = ROW / THREADS };

DEVICE int thread() { return __builtin_amdgcn_workitem_id_x(); }

DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

DEVICE float from_lane(float value, int lane) {
  return __builtin_bit_cast(
      float, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
}

DEVICE float sum(float a, float b) { return a + b; }
DEVICE float larger(float a, float b) { return __builtin_fmaxf(a, b); }

// All threads of the workgroup get what `combine` makes of the value of each.
template <typename Combine>
DEVICE float reduce(float value, Combine combine, float *parts) {
  const int wave = __builtin_amdgcn_wavefrontsize();
  const int lane = thread() % wave;
  for (int step = wave / 2; step; step /= 2) value = combine(value, from_lane(value, lane ^ step));
  if (lane == 0) parts[thread() / wave] = value;
  barrier();
  value = parts[0];
  for (int i = 1; i < THREADS / wave; i++) value = combine(value, parts[i]);
  barrier();
  return value;
}

KERNEL softmax(const float *x, float *y) {
  SHARED static float parts[8];
  const float *row = x + __builtin_amdgcn_workgroup_id_x() * ROW;
  float *out = y + __builtin_amdgcn_workgroup_id_x() * ROW;
  float kept[EACH], largest = -__builtin_inff(), total = 0;
  for (int i = 0; i < EACH; i++) {
    kept[i] = row[i * THREADS + thread()];
    largest = larger(largest, kept[i]);
  }
  largest = reduce(largest, larger, parts);
  for (int i = 0; i < EACH; i++) {
    kept[i] = __builtin_expf(kept[i] - largest);
    total += kept[i];
  }
  total = reduce(total, sum, parts);
  for (int i = 0; i < EACH; i++) out[i * THREADS + thread()] = kept[i] / total;
}

KERNEL layer_norm(const float *x, float *y) {
  SHARED static float parts[8];
  const float *row = x + __builtin_amdgcn_workgroup_id_x() * ROW;
  float *out = y + __builtin_amdgcn_workgroup_id_x() * ROW;
  float kept[EACH], total = 0, squares = 0;
  for (int i = 0; i < EACH; i++) {
    kept[i] = row[i * THREADS + thread()];
    total += kept[i];
  }
  const float mean = reduce(total, sum, parts) / ROW;
  for (int i = 0; i < EACH; i++) {
    kept[i] -= mean;
    squares += kept[i] * kept[i];
  }
  const float scale = 1 / __builtin_sqrtf(reduce(squares, sum, parts) / ROW + 1e-5f);
  for (int i = 0; i < EACH; i++) out[i * THREADS + thread()] = kept[i] * scale;
}

// Square matrices of 1024: a workgroup makes 128 x 64 results, a thread 8 x 4 of them.
enum { SIZE = 1024, ROWS = 128, COLUMNS = 64, DEPTH = 16, DOWN = 8, ACROSS = 4 };

KERNEL matmul(const float *a, const float *b, float *c) {
  SHARED static float left[DEPTH][ROWS], right[DEPTH][COLUMNS];
  const int block = __builtin_amdgcn_workgroup_id_x();
  const int top = block / (SIZE / COLUMNS) * ROWS, side = block % (SIZE / COLUMNS) * COLUMNS;
  const int down = thread() / (COLUMNS / ACROSS) * DOWN;
  const int across = thread() % (COLUMNS / ACROSS) * ACROSS;
  float sums[DOWN][ACROSS] = {};
  for (int first = 0; first < SIZE; first += DEPTH) {
    for (int i = thread(); i < ROWS * DEPTH; i += THREADS)
      left[i % DEPTH][i / DEPTH] = a[(top + i / DEPTH) * SIZE + first + i % DEPTH];
    for (int i = thread(); i < COLUMNS * DEPTH; i += THREADS)
      right[i / COLUMNS][i % COLUMNS] = b[(first + i / COLUMNS) * SIZE + side + i % COLUMNS];
    barrier();
    for (int k = 0; k < DEPTH; k++)
      for (int i = 0; i < DOWN; i++)
        for (int j = 0; j < ACROSS; j++) sums[i][j] += left[k][down + i] * right[k][across + j];
    barrier();
  }
  for (int i = 0; i < DOWN; i++)
    for (int j = 0; j < ACROSS; j++)
      c[(top + down + i) * SIZE + side + across + j] = sums[i][j];
}
