@group(0) @binding(0) var<storage, read> p0_arg0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> p0_arg1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> p0_arg2: array<vec4<f32>>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 50i) { return; }
  let v1: i32 = i32(work_item);
  let v2: i32 = (v1 / 32i);
  let v3: i32 = (v2 * 68i);
  let v4: i32 = (v1 % 32i);
  let v5: i32 = (v4 * 4i);
  let v6: bool = (v4 < 17i);
  let v7: vec4<f32> = vec4<f32>(0x0.0p+0f);
  var v8: vec4<f32> = v7;
  if (v6) { v8 = p0_arg0[(v5 >> 2u)]; }
  let v9: vec4<f32> = vec4<f32>(0x1.0000000000000p+0f);
  let v10: i32 = grid_step;
  let v11: i32 = (v10 * 136i);
  let v12: i32 = (v11 + v3);
  let v13: i32 = (v12 + v5);
  var v14: vec4<f32> = v7;
  if (v6) { v14 = p0_arg1[(v13 >> 2u)]; }
  let v15: vec4<f32> = (v14 * v8);
  let v16: vec4<f32> = (v15 + v9);
  if (v6) { p0_arg2[(v13 >> 2u)] = v16; }
}
