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
  let v1: i32 = i32(work_item);
  let v2: i32 = i32(subgroupExclusiveAdd(1u));
  let v3: bool = (v1 < 1i);
  let v4: i32 = grid_step;
  reg2 = 0x0.0p+0f;
  reg1 = 0x0.0p+0f;
  let v5: i32 = (v4 * 70i);
  for (var r6: i32 = 0; r6 < 2i; r6++) {
    let v7: i32 = (r6 * 64i);
    let v8: i32 = (v7 + v1);
    let v9: bool = (v8 < 70i);
    let v10: i32 = (v5 + v7);
    let v11: i32 = (v10 + v1);
    var v12: f32 = 0x0.0p+0f;
    if (v9) { v12 = p0_arg0[v11]; }
    let v13: f32 = select(0x0.0p+0f, v12, v9);
    reg1 = (reg1 + v13);
  }
  let v14: f32 = reg1;
  p0_local0[v1] = v14;
  workgroupBarrier();
  for (var r15: i32 = 0; r15 < 2i; r15++) {
    let v16: i32 = (r15 * 32i);
    let v17: i32 = (v16 + v2);
    let v18: f32 = p0_local0[v17];
    reg2 = (reg2 + v18);
  }
  let v19: f32 = reg2;
  let v20: f32 = subgroupAdd(v19);
  if (v3) { p0_arg1[v4] = v20; }
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
  let v1: i32 = i32(work_item);
  let v2: i32 = i32(subgroupExclusiveAdd(1u));
  let v3: bool = (v1 < 1i);
  let v4: i32 = grid_step;
  reg2 = from_bits(0x80000000u);
  reg1 = from_bits(0x80000000u);
  let v5: i32 = (v4 * 70i);
  for (var r6: i32 = 0; r6 < 2i; r6++) {
    let v7: i32 = (r6 * 64i);
    let v8: i32 = (v7 + v1);
    let v9: bool = (v8 < 70i);
    let v10: i32 = (v5 + v7);
    let v11: i32 = (v10 + v1);
    var v12: f32 = 0x0.0p+0f;
    if (v9) { v12 = p0_arg0[v11]; }
    let v13: f32 = select(from_bits(0x80000000u), v12, v9);
    reg1 = select(reg1, v13, (reg1 < v13) | is_nan(v13));
  }
  let v14: f32 = reg1;
  p0_local0[v1] = v14;
  workgroupBarrier();
  for (var r15: i32 = 0; r15 < 2i; r15++) {
    let v16: i32 = (r15 * 32i);
    let v17: i32 = (v16 + v2);
    let v18: f32 = p0_local0[v17];
    reg2 = select(reg2, v18, (reg2 < v18) | is_nan(v18));
  }
  let v19: f32 = reg2;
  let v20: f32 = select(subgroupMax(v19), from_bits(0x00400000u), subgroupAny(is_nan(v19)));
  if (v3) { p0_arg1[v4] = v20; }
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
  let v1: i32 = i32(work_item);
  let v2: i32 = i32(subgroupExclusiveAdd(1u));
  let v3: bool = (v1 < 1i);
  let v4: i32 = grid_step;
  reg2 = true;
  reg1 = true;
  let v5: i32 = (v4 * 70i);
  for (var r6: i32 = 0; r6 < 2i; r6++) {
    let v7: i32 = (r6 * 64i);
    let v8: i32 = (v7 + v1);
    let v9: bool = (v8 < 70i);
    let v10: i32 = (v5 + v7);
    let v11: i32 = (v10 + v1);
    var v12: f32 = 0x0.0p+0f;
    if (v9) { v12 = p0_arg0[v11]; }
    let v13: bool = (0x0.0p+0f < v12);
    let v14: bool = select(true, v13, v9);
    reg1 = (reg1 & v14);
  }
  let v15: bool = reg1;
  p0_local0[v1] = v15;
  workgroupBarrier();
  for (var r16: i32 = 0; r16 < 2i; r16++) {
    let v17: i32 = (r16 * 32i);
    let v18: i32 = (v17 + v2);
    let v19: bool = p0_local0[v18];
    reg2 = (reg2 & v19);
  }
  let v20: bool = reg2;
  let v21: bool = subgroupAll(v20);
  if (v3) { atomicAnd(&p0_arg1[(v4 / 4i)], ~(255u << (u32(v4 % 4i) * 8u))); atomicOr(&p0_arg1[(v4 / 4i)], u32(v21) << (u32(v4 % 4i) * 8u)); }
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
  let v1: i32 = i32(work_item);
  let v2: i32 = i32(subgroupExclusiveAdd(1u));
  let v3: bool = (v1 < 1i);
  let v4: i32 = grid_step;
  reg2 = 0i;
  reg1 = 0i;
  let v5: i32 = (v4 * 70i);
  for (var r6: i32 = 0; r6 < 2i; r6++) {
    let v7: i32 = (r6 * 64i);
    let v8: i32 = (v7 + v1);
    let v9: bool = (v8 < 70i);
    let v10: i32 = (v5 + v7);
    let v11: i32 = (v10 + v1);
    var v12: f32 = 0x0.0p+0f;
    if (v9) { v12 = p0_arg0[v11]; }
    let v13: i32 = saturate_int32(v12);
    let v14: i32 = extractBits(i32(v13), 0u, 8u);
    let v15: i32 = i32(v14);
    let v16: i32 = select(0i, v15, v9);
    reg1 = (reg1 + v16);
  }
  let v17: i32 = reg1;
  p0_local0[v1] = v17;
  workgroupBarrier();
  for (var r18: i32 = 0; r18 < 2i; r18++) {
    let v19: i32 = (r18 * 32i);
    let v20: i32 = (v19 + v2);
    let v21: i32 = p0_local0[v20];
    reg2 = (reg2 + v21);
  }
  let v22: i32 = reg2;
  let v23: i32 = subgroupAdd(v22);
  if (v3) { p0_arg1[v4] = v23; }
}
