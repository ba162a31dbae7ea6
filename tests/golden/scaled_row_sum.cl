#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

typedef struct __attribute__((packed)) { float4 value; } float4_unaligned;
typedef struct __attribute__((packed)) { float8 value; } float8_unaligned;
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void k_0(global const float *restrict arg0, global float *restrict arg1) {
  float8 reg1;
  float8 reg2;
  float8 reg3;
  float8 reg4;
  float4 reg5;
  float8 v1 = ((float8)(0x0.0p+0f));
  float8 v2 = ((float8)(0x1.0000000000000p+1f));
  float4 v3 = ((float4)(0x0.0p+0f));
  int4 v4 = ((int4)(6));
  float4 v5 = ((float4)(0x1.0000000000000p+1f));
  char4 v6 = ((char4)((char)(1 ? -1 : 0)));
  int v7 = (1 * 4);
  int4 v8 = ((int4)(v7));
  int4 v9 = as_int4(as_uint4(v8) + as_uint4(((int4)(0, 1, 2, 3))));
  char4 v10 = CONVERT(char4, (v9 < v4));
  int v11 = (1 * (-4));
  int v12 = (v11 + 6);
  int v13 = (v12 > 4 ? 4 : v12);
  int4 v14 = ((int4)(v13));
  char4 v15 = CONVERT(char4, (((int4)(0, 1, 2, 3)) < v14));
  int v16 = get_group_id(0);
  reg1 = v1;
  int v17 = (v16 * 70);
  reg2 = v1;
  reg3 = v1;
  reg4 = v1;
  for (int r18 = 0; r18 < 2; r18++) {
    int v19 = (r18 * 32);
    int v20 = (v19 + v17);
    float8 v21 = ((const global float8_unaligned *)(arg0 + v20))->value;
    reg1 = (reg1 + (v21 * v2));
    int v22 = (v20 + 8);
    float8 v23 = ((const global float8_unaligned *)(arg0 + v22))->value;
    reg2 = (reg2 + (v23 * v2));
    int v24 = (v20 + 16);
    float8 v25 = ((const global float8_unaligned *)(arg0 + v24))->value;
    reg3 = (reg3 + (v25 * v2));
    int v26 = (v20 + 24);
    float8 v27 = ((const global float8_unaligned *)(arg0 + v26))->value;
    reg4 = (reg4 + (v27 * v2));
  }
  float8 v28 = reg1;
  float8 v29 = reg2;
  float8 v30 = (v28 + v29);
  float8 v31 = reg3;
  float8 v32 = reg4;
  float8 v33 = (v31 + v32);
  float8 v34 = (v30 + v33);
  float v35 = (v34.s0 + v34.s4);
  float v36 = (v34.s1 + v34.s5);
  float v37 = (v34.s2 + v34.s6);
  float v38 = (v34.s3 + v34.s7);
  float v39 = (v35 + v37);
  float v40 = (v36 + v38);
  float v41 = (v39 + v40);
  reg5 = v3;
  for (int r42 = 0; r42 < 1; r42++) {
    int v43 = (r42 * 4);
    int4 v44 = ((int4)(v43));
    int4 v45 = as_int4(as_uint4(v44) + as_uint4(((int4)(0, 1, 2, 3))));
    int v46 = (v43 + v17);
    int v47 = (v46 + 64);
    int v48 = (r42 * (-4));
    int v49 = (v48 + 6);
    int v50 = (v49 > 4 ? 4 : v49);
    int4 v51 = ((int4)(v50));
    float4 v52 = ((const global float4_unaligned *)(arg0 + v47))->value;
    reg5 = (reg5 + (v52 * v5));
  }
  int v53 = (v7 + v17);
  int v54 = (v53 + 64);
  float4 v55 = ((float4)(((v15.s0 != 0) ? arg0[v54 + 0] : v3.s0), ((v15.s1 != 0) ? arg0[v54 + 1] : v3.s1), ((v15.s2 != 0) ? arg0[v54 + 2] : v3.s2), ((v15.s3 != 0) ? arg0[v54 + 3] : v3.s3)));
  float4 v56 = (v55 * v5);
  float4 v57 = (CONVERT(int4, v10) ? v56 : v3);
  reg5 = (reg5 + v57);
  float4 v58 = reg5;
  float v59 = (v58.s0 + v58.s2);
  float v60 = (v58.s1 + v58.s3);
  float v61 = (v59 + v60);
  float v62 = (v41 + v61);
  arg1[v16] = v62;
}
