enable subgroups;
@group(0) @binding(0) var<storage, read> p0_arg0: array<f32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<f32>;
var<workgroup> p0_local0: array<f32, 64>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 100i) { return; }
  var reg2: f32;
  var reg1: f32;
  let v1: i32 = i32(subgroupAdd(1u));
  let v2: i32 = (v1 + 63i);
  let v3: i32 = (v2 / v1);
  let v4: i32 = i32(subgroupExclusiveAdd(1u));
  let v5: i32 = i32(work_item);
  let v6: bool = (v5 < 1i);
  let v7: i32 = grid_step;
  reg2 = 0x0.0p+0f;
  reg1 = 0x0.0p+0f;
  let v8: i32 = (v7 * 70i);
  for (var r9: i32 = 0; r9 < 2i; r9++) {
    let v10: i32 = (r9 * 64i);
    let v11: i32 = (v10 + v5);
    let v12: bool = (v11 < 70i);
    let v13: i32 = (v8 + v10);
    let v14: i32 = (v13 + v5);
    var v15: f32 = 0x0.0p+0f;
    if (v12) { v15 = p0_arg0[v14]; }
    let v16: f32 = select(0x0.0p+0f, v15, v12);
    reg1 = (reg1 + v16);
  }
  let v17: f32 = reg1;
  p0_local0[v5] = v17;
  workgroupBarrier();
  for (var r18: i32 = 0; r18 < v3; r18++) {
    let v19: i32 = (r18 * v1);
    let v20: i32 = (v19 + v4);
    let v21: bool = (v20 < 64i);
    let v22: i32 = min(v20, 63i);
    let v23: f32 = p0_local0[v22];
    let v24: f32 = select(0x0.0p+0f, v23, v21);
    reg2 = (reg2 + v24);
  }
  let v25: f32 = reg2;
  let v26: f32 = subgroupAdd(v25);
  if (v6) { p0_arg1[v7] = v26; }
}

enable subgroups;
var<private> infinity_bits: u32 = 0x7f800000u;
fn from_bits(offset: u32) -> f32 { return bitcast<f32>(infinity_bits + offset); }

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

@group(0) @binding(0) var<storage, read> p0_arg0: array<f32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<f32>;
var<workgroup> p0_local0: array<f32, 64>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 100i) { return; }
  var reg2: f32;
  var reg1: f32;
  let v1: i32 = i32(subgroupAdd(1u));
  let v2: i32 = (v1 + 63i);
  let v3: i32 = (v2 / v1);
  let v4: i32 = i32(subgroupExclusiveAdd(1u));
  let v5: i32 = i32(work_item);
  let v6: bool = (v5 < 1i);
  let v7: i32 = grid_step;
  reg2 = from_bits(0x80000000u);
  reg1 = from_bits(0x80000000u);
  let v8: i32 = (v7 * 70i);
  for (var r9: i32 = 0; r9 < 2i; r9++) {
    let v10: i32 = (r9 * 64i);
    let v11: i32 = (v10 + v5);
    let v12: bool = (v11 < 70i);
    let v13: i32 = (v8 + v10);
    let v14: i32 = (v13 + v5);
    var v15: f32 = 0x0.0p+0f;
    if (v12) { v15 = p0_arg0[v14]; }
    let v16: f32 = select(from_bits(0x80000000u), v15, v12);
    reg1 = select(reg1, v16, (reg1 < v16) | is_nan(v16));
  }
  let v17: f32 = reg1;
  p0_local0[v5] = v17;
  workgroupBarrier();
  for (var r18: i32 = 0; r18 < v3; r18++) {
    let v19: i32 = (r18 * v1);
    let v20: i32 = (v19 + v4);
    let v21: bool = (v20 < 64i);
    let v22: i32 = min(v20, 63i);
    let v23: f32 = p0_local0[v22];
    let v24: f32 = select(from_bits(0x80000000u), v23, v21);
    reg2 = select(reg2, v24, (reg2 < v24) | is_nan(v24));
  }
  let v25: f32 = reg2;
  let v26: f32 = select(subgroupMax(v25), from_bits(0x00400000u), subgroupAny(is_nan(v25)));
  if (v6) { p0_arg1[v7] = v26; }
}

enable subgroups;
@group(0) @binding(0) var<storage, read> p0_arg0: array<f32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<atomic<u32>>;
var<workgroup> p0_local0: array<bool, 64>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 100i) { return; }
  var reg2: bool;
  var reg1: bool;
  let v1: i32 = i32(subgroupAdd(1u));
  let v2: i32 = (v1 + 63i);
  let v3: i32 = (v2 / v1);
  let v4: i32 = i32(subgroupExclusiveAdd(1u));
  let v5: i32 = i32(work_item);
  let v6: bool = (v5 < 1i);
  let v7: i32 = grid_step;
  reg2 = true;
  reg1 = true;
  let v8: i32 = (v7 * 70i);
  for (var r9: i32 = 0; r9 < 2i; r9++) {
    let v10: i32 = (r9 * 64i);
    let v11: i32 = (v10 + v5);
    let v12: bool = (v11 < 70i);
    let v13: i32 = (v8 + v10);
    let v14: i32 = (v13 + v5);
    var v15: f32 = 0x0.0p+0f;
    if (v12) { v15 = p0_arg0[v14]; }
    let v16: bool = (0x0.0p+0f < v15);
    let v17: bool = select(true, v16, v12);
    reg1 = (reg1 & v17);
  }
  let v18: bool = reg1;
  p0_local0[v5] = v18;
  workgroupBarrier();
  for (var r19: i32 = 0; r19 < v3; r19++) {
    let v20: i32 = (r19 * v1);
    let v21: i32 = (v20 + v4);
    let v22: bool = (v21 < 64i);
    let v23: i32 = min(v21, 63i);
    let v24: bool = p0_local0[v23];
    let v25: bool = select(true, v24, v22);
    reg2 = (reg2 & v25);
  }
  let v26: bool = reg2;
  let v27: bool = subgroupAll(v26);
  if (v6) { atomicAnd(&p0_arg1[(v7 / 4i)], ~(255u << (u32(v7 % 4i) * 8u))); atomicOr(&p0_arg1[(v7 / 4i)], u32(v27) << (u32(v7 % 4i) * 8u)); }
}

enable subgroups;
fn saturate_int32(x: f32) -> i32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return 0i; }
  if (x >= 2147483648.0f) { return 2147483647i; }
  if (x <= -2147483648.0f) { return i32(-2147483648); }
  return i32(x);
}

@group(0) @binding(0) var<storage, read> p0_arg0: array<f32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<i32>;
var<workgroup> p0_local0: array<i32, 64>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 100i) { return; }
  var reg2: i32;
  var reg1: i32;
  let v1: i32 = i32(subgroupAdd(1u));
  let v2: i32 = (v1 + 63i);
  let v3: i32 = (v2 / v1);
  let v4: i32 = i32(subgroupExclusiveAdd(1u));
  let v5: i32 = i32(work_item);
  let v6: bool = (v5 < 1i);
  let v7: i32 = grid_step;
  reg2 = 0i;
  reg1 = 0i;
  let v8: i32 = (v7 * 70i);
  for (var r9: i32 = 0; r9 < 2i; r9++) {
    let v10: i32 = (r9 * 64i);
    let v11: i32 = (v10 + v5);
    let v12: bool = (v11 < 70i);
    let v13: i32 = (v8 + v10);
    let v14: i32 = (v13 + v5);
    var v15: f32 = 0x0.0p+0f;
    if (v12) { v15 = p0_arg0[v14]; }
    let v16: i32 = saturate_int32(v15);
    let v17: i32 = extractBits(i32(v16), 0u, 8u);
    let v18: i32 = i32(v17);
    let v19: i32 = select(0i, v18, v12);
    reg1 = (reg1 + v19);
  }
  let v20: i32 = reg1;
  p0_local0[v5] = v20;
  workgroupBarrier();
  for (var r21: i32 = 0; r21 < v3; r21++) {
    let v22: i32 = (r21 * v1);
    let v23: i32 = (v22 + v4);
    let v24: bool = (v23 < 64i);
    let v25: i32 = min(v23, 63i);
    let v26: i32 = p0_local0[v25];
    let v27: i32 = select(0i, v26, v24);
    reg2 = (reg2 + v27);
  }
  let v28: i32 = reg2;
  let v29: i32 = subgroupAdd(v28);
  if (v6) { p0_arg1[v7] = v29; }
}
