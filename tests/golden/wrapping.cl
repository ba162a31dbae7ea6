#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

typedef struct __attribute__((packed)) { int4 value; } int4_unaligned;
typedef struct __attribute__((packed)) { long4 value; } long4_unaligned;
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void k_0(global const int *restrict arg0, global long *restrict arg1) {
  int4 v1 = ((int4)(3));
  int4 v2 = ((int4)((-0x7fffffff - 1)));
  int4 v3 = ((int4)(1));
  int v4 = get_group_id(0);
  int v5 = (v4 * 16);
  int4 v6 = ((const global int4_unaligned *)(arg0 + v5))->value;
  int4 v7 = as_int4(as_uint4(v6) * as_uint4(v1));
  int4 v8 = as_int4(as_uint4(v7) + as_uint4(v2));
  int4 v9 = as_int4(as_uint4(v8) - as_uint4(v3));
  long4 v10 = CONVERT(long4, v9);
  ((global long4_unaligned *)(arg1 + v5))->value = v10;
  int v11 = (v5 + 4);
  int4 v12 = ((const global int4_unaligned *)(arg0 + v11))->value;
  int4 v13 = as_int4(as_uint4(v12) * as_uint4(v1));
  int4 v14 = as_int4(as_uint4(v13) + as_uint4(v2));
  int4 v15 = as_int4(as_uint4(v14) - as_uint4(v3));
  long4 v16 = CONVERT(long4, v15);
  ((global long4_unaligned *)(arg1 + v11))->value = v16;
  int v17 = (v5 + 8);
  int4 v18 = ((const global int4_unaligned *)(arg0 + v17))->value;
  int4 v19 = as_int4(as_uint4(v18) * as_uint4(v1));
  int4 v20 = as_int4(as_uint4(v19) + as_uint4(v2));
  int4 v21 = as_int4(as_uint4(v20) - as_uint4(v3));
  long4 v22 = CONVERT(long4, v21);
  ((global long4_unaligned *)(arg1 + v17))->value = v22;
  int v23 = (v5 + 12);
  int4 v24 = ((const global int4_unaligned *)(arg0 + v23))->value;
  int4 v25 = as_int4(as_uint4(v24) * as_uint4(v1));
  int4 v26 = as_int4(as_uint4(v25) + as_uint4(v2));
  int4 v27 = as_int4(as_uint4(v26) - as_uint4(v3));
  long4 v28 = CONVERT(long4, v27);
  ((global long4_unaligned *)(arg1 + v23))->value = v28;
}
