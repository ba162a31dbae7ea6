#pragma clang fp contract(fast)
typedef float float32x8 __attribute__((ext_vector_type(8)));
typedef float float32x8u __attribute__((ext_vector_type(8), aligned(4)));
typedef int int32x8 __attribute__((ext_vector_type(8)));
typedef int int32x8u __attribute__((ext_vector_type(8), aligned(4)));
typedef long long int64x8 __attribute__((ext_vector_type(8)));
typedef long long int64x8u __attribute__((ext_vector_type(8), aligned(8)));
typedef signed char maskx8 __attribute__((ext_vector_type(8)));
typedef signed char maskx8u __attribute__((ext_vector_type(8), aligned(1)));
void k_0(void **restrict args, const long long *restrict vars, long long begin, long long end) {
  float32x8 reg1;
  float *restrict arg0 = args[0];
  float *restrict arg1 = args[1];
  float32x8 v1 = ((float32x8)(((float)0x0.0p+0)));
  int64x8 v2 = ((int64x8)(((long long)70LL)));
  float32x8 v3 = ((float32x8)(((float)0x1.0000000000000p+1)));
  for (long long item = begin; item < end; item++) {
    long long v4 = item;
    reg1 = v1;
    long long v5 = (long long)(v4 * ((long long)70LL));
    for (long long r6 = 0; r6 < ((long long)9LL); r6++) {
      long long v7 = (long long)(r6 * ((long long)8LL));
      int64x8 v8 = ((int64x8)(v7));
      int64x8 v9 = (int64x8)(v8 + ((int64x8){((long long)0LL), ((long long)1LL), ((long long)2LL), ((long long)3LL), ((long long)4LL), ((long long)5LL), ((long long)6LL), ((long long)7LL)}));
      maskx8 v10 = __builtin_convertvector(v9 < v2, maskx8);
      long long v11 = (long long)(v7 + v5);
      long long v12 = (long long)(r6 * ((long long)-8LL));
      long long v13 = (long long)(v12 + ((long long)70LL));
      long long v14 = (v13 > ((long long)8LL) ? ((long long)8LL) : v13);
      int v15 = (int)v14;
      int32x8 v16 = ((int32x8)(v15));
      maskx8 v17 = __builtin_convertvector(((int32x8){((int)0LL), ((int)1LL), ((int)2LL), ((int)3LL), ((int)4LL), ((int)5LL), ((int)6LL), ((int)7LL)}) < v16, maskx8);
      float32x8 v18 = (float32x8){v17[0] ? (arg0 + v11)[0] : v1[0], v17[1] ? (arg0 + v11)[1] : v1[1], v17[2] ? (arg0 + v11)[2] : v1[2], v17[3] ? (arg0 + v11)[3] : v1[3], v17[4] ? (arg0 + v11)[4] : v1[4], v17[5] ? (arg0 + v11)[5] : v1[5], v17[6] ? (arg0 + v11)[6] : v1[6], v17[7] ? (arg0 + v11)[7] : v1[7]};
      float32x8 v19 = (float32x8)(v18 * v3);
      float32x8 v20 = (float32x8)(((int32x8)v19 & __builtin_convertvector(v10, int32x8)) | ((int32x8)v1 & ~__builtin_convertvector(v10, int32x8)));
      reg1 = (float32x8)(reg1 + v20);
    }
    float32x8 v21 = reg1;
    float v22 = (float)(v21[0] + v21[4]);
    float v23 = (float)(v21[1] + v21[5]);
    float v24 = (float)(v21[2] + v21[6]);
    float v25 = (float)(v21[3] + v21[7]);
    float v26 = (float)(v22 + v24);
    float v27 = (float)(v23 + v25);
    float v28 = (float)(v26 + v27);
    *(arg1 + v4) = v28;
  }
}
