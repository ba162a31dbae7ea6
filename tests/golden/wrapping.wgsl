@group(0) @binding(0) var<storage, read> p0_arg0: array<i32>;
@group(0) @binding(1) var<storage, read_write> p0_arg1: array<vec2<u32>>;
@compute @workgroup_size(64)
fn k_0(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(num_workgroups) workgroup_counts: vec3<u32>, @builtin(local_invocation_index) work_item: u32) {
  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);
  if (grid_step >= 1i) { return; }
  let v1: i32 = i32(work_item);
  let v2: i32 = p0_arg0[v1];
  let v3: i32 = (v2 * 3i);
  let v4: i32 = (v3 + i32(-2147483648));
  let v5: i32 = (v4 - 1i);
  let v6: vec2<u32> = vec2<u32>(bitcast<u32>(v5), bitcast<u32>(v5 >> 31u));
  p0_arg1[v1] = v6;
}
