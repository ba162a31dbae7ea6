#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void k_0(global const float *restrict arg0, global float *restrict arg1) {
  float8 reg1;
  float8 v1 = ((float8)(0x0.0p+0f));
  int8 v2 = ((int8)(70));
  float8 v3 = ((float8)(0x1.0000000000000p+1f));
  int v4 = get_group_id(0);
  reg1 = v1;
  int v5 = (v4 * 70);
  for (int r6 = 0; r6 < 9; r6++) {
    int v7 = (r6 * 8);
    int8 v8 = ((int8)(v7));
    int8 v9 = as_int8(as_uint8(v8) + as_uint8(((int8)(0, 1, 2, 3, 4, 5, 6, 7))));
    char8 v10 = CONVERT(char8, (v9 < v2));
    int v11 = (v7 + v5);
    int v12 = (r6 * (-8));
    int v13 = (v12 + 70);
    int v14 = (v13 > 8 ? 8 : v13);
    int8 v15 = ((int8)(v14));
    char8 v16 = CONVERT(char8, (((int8)(0, 1, 2, 3, 4, 5, 6, 7)) < v15));
    float8 v17 = ((float8)(((v16.s0 != 0) ? arg0[v11 + 0] : v1.s0), ((v16.s1 != 0) ? arg0[v11 + 1] : v1.s1), ((v16.s2 != 0) ? arg0[v11 + 2] : v1.s2), ((v16.s3 != 0) ? arg0[v11 + 3] : v1.s3), ((v16.s4 != 0) ? arg0[v11 + 4] : v1.s4), ((v16.s5 != 0) ? arg0[v11 + 5] : v1.s5), ((v16.s6 != 0) ? arg0[v11 + 6] : v1.s6), ((v16.s7 != 0) ? arg0[v11 + 7] : v1.s7)));
    float8 v18 = (v17 * v3);
    float8 v19 = (CONVERT(int8, v10) ? v18 : v1);
    reg1 = (reg1 + v19);
  }
  float8 v20 = reg1;
  float v21 = (v20.s0 + v20.s4);
  float v22 = (v20.s1 + v20.s5);
  float v23 = (v20.s2 + v20.s6);
  float v24 = (v20.s3 + v20.s7);
  float v25 = (v21 + v23);
  float v26 = (v22 + v24);
  float v27 = (v25 + v26);
  arg1[v4] = v27;
}
