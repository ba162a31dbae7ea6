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
    long long v5 = item;
    reg1 = v1;
    long long v6 = (long long)(v5 * ((long long)70LL));
    for (long long i7 = 0; i7 < ((long long)9LL); i7++) {
      long long v8 = (long long)(i7 * ((long long)8LL));
      int64x8 v9 = ((int64x8)(v8));
      int64x8 v10 = (int64x8)(v9 + ((int64x8){0, 1, 2, 3, 4, 5, 6, 7}));
      maskx8 v11 = __builtin_convertvector(v10 < v2, maskx8);
      long long v12 = (long long)(v8 + v6);
      long long v13 = (long long)(v8 * ((long long)-1LL));
      long long v14 = (long long)(v13 + ((long long)70LL));
      long long v15 = (v14 > ((long long)8LL) ? ((long long)8LL) : v14);
      long long v16 = (v15 < ((long long)0LL) ? ((long long)0LL) : v15);
      int v17 = (int)v16;
      int32x8 v18 = ((int32x8)(v17));
      maskx8 v19 = __builtin_convertvector(((int32x8){0, 1, 2, 3, 4, 5, 6, 7}) < v18, maskx8);
      float32x8 v20 = (float32x8){v19[0] ? (arg0 + v12)[0] : v1[0], v19[1] ? (arg0 + v12)[1] : v1[1], v19[2] ? (arg0 + v12)[2] : v1[2], v19[3] ? (arg0 + v12)[3] : v1[3], v19[4] ? (arg0 + v12)[4] : v1[4], v19[5] ? (arg0 + v12)[5] : v1[5], v19[6] ? (arg0 + v12)[6] : v1[6], v19[7] ? (arg0 + v12)[7] : v1[7]};
      float32x8 v21 = (float32x8)(v20 * v3);
      float32x8 v22 = (float32x8)(((int32x8)v21 & __builtin_convertvector(v11, int32x8)) | ((int32x8)v1 & ~__builtin_convertvector(v11, int32x8)));
      reg1 = (float32x8)(reg1 + v22);
    }
    float32x8 v23 = reg1;
    float v24 = (float)(v23[0] + v23[4]);
    float v25 = (float)(v23[1] + v23[5]);
    float v26 = (float)(v23[2] + v23[6]);
    float v27 = (float)(v23[3] + v23[7]);
    float v28 = (float)(v24 + v26);
    float v29 = (float)(v25 + v27);
    float v30 = (float)(v28 + v29);
    *(arg1 + v5) = v30;
  }
}
