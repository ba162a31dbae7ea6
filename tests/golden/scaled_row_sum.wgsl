@group(0) @binding(0) var<storage, read> p0_arg0: array<f32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<f32>;
var<workgroup> p0_local0: array<f32, 64>;
var<workgroup> p0_local1: array<f32, 8>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 100i) { return; }
  var reg3: f32;
  var reg2: f32;
  var reg1: f32;
  let v1: i32 = i32(work_item);
  let v2: i32 = (v1 % 8i);
  let v3: bool = (v1 < 8i);
  let v4: bool = (v1 < 1i);
  let v5: i32 = grid_step;
  reg3 = 0x0.0p+0f;
  reg2 = 0x0.0p+0f;
  reg1 = 0x0.0p+0f;
  let v6: i32 = (v5 * 70i);
  for (var r7: i32 = 0; r7 < 2i; r7++) {
    let v8: i32 = (r7 * 64i);
    let v9: i32 = (v8 + v1);
    let v10: bool = (v9 < 70i);
    let v11: i32 = (v6 + v8);
    let v12: i32 = (v11 + v1);
    var v13: f32 = 0x0.0p+0f;
    if (v10) { v13 = p0_arg0[v12]; }
    let v14: f32 = (v13 * 0x1.0000000000000p+1f);
    let v15: f32 = select(0x0.0p+0f, v14, v10);
    reg1 = (reg1 + v15);
  }
  let v16: f32 = reg1;
  p0_local0[v1] = v16;
  workgroupBarrier();
  for (var r17: i32 = 0; r17 < 8i; r17++) {
    let v18: i32 = (r17 * 8i);
    let v19: i32 = (v18 + v2);
    let v20: f32 = p0_local0[v19];
    reg2 = (reg2 + v20);
  }
  let v21: f32 = reg2;
  if (v3) { p0_local1[v2] = v21; }
  workgroupBarrier();
  for (var r22: i32 = 0; r22 < 8i; r22++) {
    let v23: f32 = p0_local1[r22];
    reg3 = (reg3 + v23);
  }
  let v24: f32 = reg3;
  if (v4) { p0_arg1[v5] = v24; }
}
