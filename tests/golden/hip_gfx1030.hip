#if __clang_major__ >= 20
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
static inline __attribute__((device)) int other_row(int word) {
  int other = __builtin_amdgcn_permlanex16(word, word, 1985229328, -19088744, false, false);
  asm volatile("" : "+v"(other));
  return other;
}
extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64)))
void k_0(const float *__restrict__ arg0, float *__restrict__ arg1) {
  float reg2;
  float reg1;
  __attribute__((shared, aligned(16))) float local0[64];
  int v1 = __builtin_amdgcn_workitem_id_x();
  int v2 = (__builtin_amdgcn_workitem_id_x() & 31);
  unsigned char v3 = (v1 < ((int)1LL));
  int v4 = __builtin_amdgcn_workgroup_id_x();
  reg2 = ((float)0x0.0p+0);
  reg1 = ((float)0x0.0p+0);
  int v5 = (v4 * ((int)70LL));
  for (int r6 = 0; r6 < ((int)2LL); r6++) {
    int v7 = (r6 * ((int)64LL));
    int v8 = (v7 + v1);
    unsigned char v9 = (v8 < ((int)70LL));
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? *((const float *)((const char *)arg0 + ((unsigned)v11 * 4))) : ((float)0x0.0p+0);
    float v13 = v9 ? v12 : ((float)0x0.0p+0);
    reg1 = (reg1 + v13);
  }
  float v14 = reg1;
  *(local0 + v1) = v14;
  FENCE(__ATOMIC_RELEASE);
  __builtin_amdgcn_s_barrier();
  FENCE(__ATOMIC_ACQUIRE);
  for (int r15 = 0; r15 < ((int)2LL); r15++) {
    int v16 = (r15 * ((int)32LL));
    int v17 = (v16 + v2);
    float v18 = *(local0 + v17);
    reg2 = (reg2 + v18);
  }
  float v19 = reg2;
  float v20 = __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, v19), 177, 15, 15, true));
  float v21 = (v19 + v20);
  float v22 = __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, v21), 78, 15, 15, true));
  float v23 = (v21 + v22);
  float v24 = __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, v23), 321, 15, 15, true));
  float v25 = (v23 + v24);
  float v26 = __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, v25), 320, 15, 15, true));
  float v27 = (v25 + v26);
  float v28 = __builtin_bit_cast(float, other_row(__builtin_bit_cast(int, v27)));
  float v29 = (v27 + v28);
  if (v3) *((float *)((char *)arg1 + ((unsigned)v4 * 4))) = v29;
}

#if __clang_major__ >= 20
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64)))
void k_0(const float *__restrict__ arg0, unsigned char *__restrict__ arg1) {
  unsigned char reg2;
  unsigned char reg1;
  __attribute__((shared, aligned(16))) unsigned char local0[64];
  int v1 = __builtin_amdgcn_workitem_id_x();
  int v2 = (__builtin_amdgcn_workitem_id_x() & 31);
  unsigned char v3 = (v1 < ((int)1LL));
  int v4 = __builtin_amdgcn_workgroup_id_x();
  reg2 = 0;
  reg1 = 0;
  int v5 = (v4 * ((int)70LL));
  for (int r6 = 0; r6 < ((int)2LL); r6++) {
    int v7 = (r6 * ((int)64LL));
    int v8 = (v7 + v1);
    unsigned char v9 = (v8 < ((int)70LL));
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? *((const float *)((const char *)arg0 + ((unsigned)v11 * 4))) : ((float)0x0.0p+0);
    unsigned char v13 = (((float)0x0.0p+0) < v12);
    unsigned char v14 = v9 ? v13 : 0;
    reg1 = (unsigned char)(reg1 | v14);
  }
  unsigned char v15 = reg1;
  *(local0 + v1) = v15;
  FENCE(__ATOMIC_RELEASE);
  __builtin_amdgcn_s_barrier();
  FENCE(__ATOMIC_ACQUIRE);
  for (int r16 = 0; r16 < ((int)2LL); r16++) {
    int v17 = (r16 * ((int)32LL));
    int v18 = (v17 + v2);
    unsigned char v19 = *(local0 + v18) != 0;
    reg2 = (unsigned char)(reg2 | v19);
  }
  unsigned char v20 = reg2;
  unsigned char v21 = (__builtin_amdgcn_uicmp((unsigned)(v20), 0u, 33) != 0);
  if (v3) *((unsigned char *)((char *)arg1 + ((unsigned)v4 * 1))) = v21;
}

typedef float float32x4 __attribute__((ext_vector_type(4)));
typedef float float32x4u __attribute__((ext_vector_type(4), aligned(4)));
typedef int int32x4 __attribute__((ext_vector_type(4)));
typedef int int32x4u __attribute__((ext_vector_type(4), aligned(4)));
typedef signed char maskx4 __attribute__((ext_vector_type(4)));
typedef signed char maskx4u __attribute__((ext_vector_type(4), aligned(1)));
static inline __attribute__((device)) int saturate_float32_int32(float x) {
  return x != x ? 0 : x >= 2147483648.0 ? 2147483647 : x < -2147483648.0 ? (-2147483647 - 1) : (int)x;
}

extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256)))
void k_0(const float *__restrict__ arg0, int *__restrict__ arg1) {
  int v1 = __builtin_amdgcn_workitem_id_x();
  int v2 = (v1 * ((int)4LL));
  float32x4 v3 = ((float32x4)(((float)0x0.0p+0)));
  float32x4 v4 = ((float32x4)(((float)0x1.0000000000000p+1)));
  float32x4 v5 = ((float32x4)(((float)0x1.0000000000000p+0)));
  int v6 = __builtin_amdgcn_workgroup_id_x();
  int v7 = (v6 * ((int)1024LL));
  int v8 = (v7 + v2);
  int v9 = (v6 * ((int)256LL));
  int v10 = (v9 + v1);
  unsigned char v11 = (v10 < ((int)1750LL));
  float32x4 v12 = v11 ? *(const float32x4u *)((const float *)((const char *)arg0 + ((unsigned)v8 * 4))) : v3;
  float32x4 v13 = (float32x4)(v12 * v4);
  float32x4 v14 = (float32x4){__builtin_fmaf(v12[0], v4[0], v5[0]), __builtin_fmaf(v12[1], v4[1], v5[1]), __builtin_fmaf(v12[2], v4[2], v5[2]), __builtin_fmaf(v12[3], v4[3], v5[3])};
  float32x4 v15 = (float32x4)(((int32x4)v3 & __builtin_convertvector(__builtin_convertvector(v3 != v3, maskx4), int32x4)) | ((int32x4)((float32x4)(((int32x4)v3 & __builtin_convertvector(__builtin_convertvector(v14 < v3, maskx4), int32x4)) | ((int32x4)v14 & ~__builtin_convertvector(__builtin_convertvector(v14 < v3, maskx4), int32x4)))) & ~__builtin_convertvector(__builtin_convertvector(v3 != v3, maskx4), int32x4)));
  int32x4 v16 = (int32x4){saturate_float32_int32(v15[0]), saturate_float32_int32(v15[1]), saturate_float32_int32(v15[2]), saturate_float32_int32(v15[3])};
  if (v11) *(int32x4u *)((int *)((char *)arg1 + ((unsigned)v8 * 4))) = v16;
}
