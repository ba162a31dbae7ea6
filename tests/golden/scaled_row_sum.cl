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
  int v6 = (1 * 4);
  int4 v7 = ((int4)(v6));
  int4 v8 = as_int4(as_uint4(v7) + as_uint4(((int4)(0, 1, 2, 3))));
  char4 v9 = CONVERT(char4, (v8 < v4));
  int v10 = (1 * (-4));
  int v11 = (v10 + 6);
  int v12 = (v11 > 4 ? 4 : v11);
  int4 v13 = ((int4)(v12));
  char4 v14 = CONVERT(char4, (((int4)(0, 1, 2, 3)) < v13));
  int v15 = get_group_id(0);
  reg1 = v1;
  int v16 = (v15 * 70);
  reg2 = v1;
  reg3 = v1;
  reg4 = v1;
  for (int r17 = 0; r17 < 2; r17++) {
    int v18 = (r17 * 32);
    int v19 = (v18 + v16);
    float8 v20 = ((const global float8_unaligned *)(arg0 + v19))->value;
    reg1 = (reg1 + (v20 * v2));
    int v21 = (v19 + 8);
    float8 v22 = ((const global float8_unaligned *)(arg0 + v21))->value;
    reg2 = (reg2 + (v22 * v2));
    int v23 = (v19 + 16);
    float8 v24 = ((const global float8_unaligned *)(arg0 + v23))->value;
    reg3 = (reg3 + (v24 * v2));
    int v25 = (v19 + 24);
    float8 v26 = ((const global float8_unaligned *)(arg0 + v25))->value;
    reg4 = (reg4 + (v26 * v2));
  }
  float8 v27 = reg1;
  float8 v28 = reg2;
  float8 v29 = (v27 + v28);
  float8 v30 = reg3;
  float8 v31 = reg4;
  float8 v32 = (v30 + v31);
  float8 v33 = (v29 + v32);
  float v34 = (v33.s0 + v33.s4);
  float v35 = (v33.s1 + v33.s5);
  float v36 = (v33.s2 + v33.s6);
  float v37 = (v33.s3 + v33.s7);
  float v38 = (v34 + v36);
  float v39 = (v35 + v37);
  float v40 = (v38 + v39);
  reg5 = v3;
  for (int r41 = 0; r41 < 1; r41++) {
    int v42 = (r41 * 4);
    int4 v43 = ((int4)(v42));
    int4 v44 = as_int4(as_uint4(v43) + as_uint4(((int4)(0, 1, 2, 3))));
    int v45 = (v42 + v16);
    int v46 = (v45 + 64);
    int v47 = (r41 * (-4));
    int v48 = (v47 + 6);
    int v49 = (v48 > 4 ? 4 : v48);
    int4 v50 = ((int4)(v49));
    float4 v51 = ((const global float4_unaligned *)(arg0 + v46))->value;
    reg5 = (reg5 + (v51 * v5));
  }
  int v52 = (v6 + v16);
  int v53 = (v52 + 64);
  float4 v54 = ((float4)(((v14.s0 != 0) ? arg0[v53 + 0] : v3.s0), ((v14.s1 != 0) ? arg0[v53 + 1] : v3.s1), ((v14.s2 != 0) ? arg0[v53 + 2] : v3.s2), ((v14.s3 != 0) ? arg0[v53 + 3] : v3.s3)));
  float4 v55 = (v54 * v5);
  float4 v56 = (CONVERT(int4, v9) ? v55 : v3);
  reg5 = (reg5 + v56);
  float4 v57 = reg5;
  float v58 = (v57.s0 + v57.s2);
  float v59 = (v57.s1 + v57.s3);
  float v60 = (v58 + v59);
  float v61 = (v40 + v60);
  arg1[v15] = v61;
}
