#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

__attribute__((reqd_work_group_size(64, 1, 1), intel_reqd_sub_group_size(16)))
kernel void k_0(global const float *restrict arg0, global float *restrict arg1) {
  float reg2;
  float reg1;
  local float local0[64] __attribute__((aligned(64)));
  int v1 = get_local_id(0);
  int v2 = get_sub_group_local_id();
  uchar v3 = (v1 < 1);
  int v4 = get_group_id(0);
  reg2 = 0x0.0p+0f;
  reg1 = 0x0.0p+0f;
  int v5 = (v4 * 70);
  for (int r6 = 0; r6 < 2; r6++) {
    int v7 = (r6 * 64);
    int v8 = (v7 + v1);
    uchar v9 = (v8 < 70);
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? arg0[v11] : 0x0.0p+0f;
    float v13 = (v9 ? v12 : 0x0.0p+0f);
    reg1 = (reg1 + v13);
  }
  float v14 = reg1;
  local0[v1] = v14;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r15 = 0; r15 < 4; r15++) {
    int v16 = (r15 * 16);
    int v17 = (v16 + v2);
    float v18 = local0[v17];
    reg2 = (reg2 + v18);
  }
  float v19 = reg2;
  float v20 = sub_group_reduce_add(v19);
  if (v3) arg1[v4] = v20;
}

#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

__attribute__((reqd_work_group_size(64, 1, 1), intel_reqd_sub_group_size(16)))
kernel void k_0(global const float *restrict arg0, global float *restrict arg1) {
  float reg2;
  float reg1;
  local float local0[64] __attribute__((aligned(64)));
  int v1 = get_local_id(0);
  int v2 = get_sub_group_local_id();
  uchar v3 = (v1 < 1);
  int v4 = get_group_id(0);
  reg2 = ((float)-INFINITY);
  reg1 = ((float)-INFINITY);
  int v5 = (v4 * 70);
  for (int r6 = 0; r6 < 2; r6++) {
    int v7 = (r6 * 64);
    int v8 = (v7 + v1);
    uchar v9 = (v8 < 70);
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? arg0[v11] : 0x0.0p+0f;
    float v13 = (v9 ? v12 : ((float)-INFINITY));
    reg1 = ((reg1 < v13) || (v13 != v13) ? v13 : reg1);
  }
  float v14 = reg1;
  local0[v1] = v14;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r15 = 0; r15 < 4; r15++) {
    int v16 = (r15 * 16);
    int v17 = (v16 + v2);
    float v18 = local0[v17];
    reg2 = ((reg2 < v18) || (v18 != v18) ? v18 : reg2);
  }
  float v19 = reg2;
  float v20 = sub_group_any(v19 != v19) ? ((float)NAN) : sub_group_reduce_max(v19);
  if (v3) arg1[v4] = v20;
}

#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

__attribute__((reqd_work_group_size(64, 1, 1), intel_reqd_sub_group_size(16)))
kernel void k_0(global const float *restrict arg0, global uchar *restrict arg1) {
  uchar reg2;
  uchar reg1;
  local uchar local0[64] __attribute__((aligned(64)));
  int v1 = get_local_id(0);
  int v2 = get_sub_group_local_id();
  uchar v3 = (v1 < 1);
  int v4 = get_group_id(0);
  reg2 = 1;
  reg1 = 1;
  int v5 = (v4 * 70);
  for (int r6 = 0; r6 < 2; r6++) {
    int v7 = (r6 * 64);
    int v8 = (v7 + v1);
    uchar v9 = (v8 < 70);
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? arg0[v11] : 0x0.0p+0f;
    uchar v13 = (0x0.0p+0f < v12);
    uchar v14 = (v9 ? v13 : 1);
    reg1 = (uchar)(reg1 & v14);
  }
  uchar v15 = reg1;
  local0[v1] = v15;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r16 = 0; r16 < 4; r16++) {
    int v17 = (r16 * 16);
    int v18 = (v17 + v2);
    uchar v19 = (local0[v18] != 0);
    reg2 = (uchar)(reg2 & v19);
  }
  uchar v20 = reg2;
  uchar v21 = sub_group_all(v20) != 0;
  if (v3) arg1[v4] = v21;
}

#pragma OPENCL FP_CONTRACT ON
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif

__attribute__((reqd_work_group_size(64, 1, 1), intel_reqd_sub_group_size(16)))
kernel void k_0(global const float *restrict arg0, global int *restrict arg1) {
  int reg2;
  int reg1;
  local int local0[64] __attribute__((aligned(64)));
  int v1 = get_local_id(0);
  int v2 = get_sub_group_local_id();
  uchar v3 = (v1 < 1);
  int v4 = get_group_id(0);
  reg2 = 0;
  reg1 = 0;
  int v5 = (v4 * 70);
  for (int r6 = 0; r6 < 2; r6++) {
    int v7 = (r6 * 64);
    int v8 = (v7 + v1);
    uchar v9 = (v8 < 70);
    int v10 = (v5 + v7);
    int v11 = (v10 + v1);
    float v12 = v9 ? arg0[v11] : 0x0.0p+0f;
    int v13 = (v12 == v12 ? convert_int_sat(v12) : 0);
    char v14 = (char)v13;
    int v15 = (int)v14;
    int v16 = (v9 ? v15 : 0);
    reg1 = as_int(as_uint(reg1) + as_uint(v16));
  }
  int v17 = reg1;
  local0[v1] = v17;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r18 = 0; r18 < 4; r18++) {
    int v19 = (r18 * 16);
    int v20 = (v19 + v2);
    int v21 = local0[v20];
    reg2 = as_int(as_uint(reg2) + as_uint(v21));
  }
  int v22 = reg2;
  int v23 = sub_group_reduce_add(v22);
  if (v3) arg1[v4] = v23;
}
