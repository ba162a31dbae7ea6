target triple = "amdgcn-amd-amdhsa"

@k_0_local0 = internal addrspace(3) global [64 x float] poison, align 16
define amdgpu_kernel void @k_0(ptr addrspace(1) noalias readonly %arg0, ptr addrspace(1) noalias %arg1) #0 !reqd_work_group_size !1 {
entry:
  %workitem.x = call range(i32 0, 64) i32 @llvm.amdgcn.workitem.id.x()
  %workgroup.x = call range(i32 0, 4294967295) i32 @llvm.amdgcn.workgroup.id.x()
  %reg2 = alloca float, addrspace(5)
  %reg1 = alloca float, addrspace(5)
  br label %body
body:
  %v1 = and i32 %workitem.x, 63
  %v2 = icmp slt i32 %workitem.x, 1
  store float 0x0000000000000000, ptr addrspace(5) %reg2
  store float 0x0000000000000000, ptr addrspace(5) %reg1
  %v3 = mul nsw i32 %workgroup.x, 70
  br label %loop4
loop4:
  %loop4.i = phi i32 [ 0, %body ], [ %loop4.i.next, %loop4.next ]
  %v5 = mul nsw i32 %loop4.i, 64
  %v6 = add nsw i32 %v5, %workitem.x
  %v7 = icmp slt i32 %v6, 70
  %v8 = add nsw i32 %v3, %v5
  %v9 = add nsw i32 %v8, %workitem.x
  %v10 = mul nuw i32 %v9, 4
  %v11 = zext i32 %v10 to i64
  %p12 = getelementptr i8, ptr addrspace(1) %arg0, i64 %v11
  br i1 %v7, label %if13, label %if13.done
if13:
  %v14 = load float, ptr addrspace(1) %p12, align 4
  br label %if13.done
if13.done:
  %v15 = phi float [ %v14, %if13 ], [ 0x0000000000000000, %loop4 ]
  %v16 = select i1 %v7, float %v15, float 0x0000000000000000
  %v17 = load float, ptr addrspace(5) %reg1
  %v18 = fadd float %v17, %v16
  store float %v18, ptr addrspace(5) %reg1
  br label %loop4.next
loop4.next:
  %loop4.i.next = add nuw nsw i32 %loop4.i, 1
  %v19 = icmp ult i32 %loop4.i.next, 2
  br i1 %v19, label %loop4, label %loop4.done
loop4.done:
  %v20 = load float, ptr addrspace(5) %reg1
  %p21 = getelementptr float, ptr addrspace(3) @k_0_local0, i32 %workitem.x
  store float %v20, ptr addrspace(3) %p21, align 4
  fence syncscope("workgroup") release, !mmra !0
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire, !mmra !0
  br label %loop22
loop22:
  %loop22.i = phi i32 [ 0, %loop4.done ], [ %loop22.i.next, %loop22.next ]
  %v23 = mul nsw i32 %loop22.i, 64
  %v24 = add nsw i32 %v23, %v1
  %p25 = getelementptr float, ptr addrspace(3) @k_0_local0, i32 %v24
  %v26 = load float, ptr addrspace(3) %p25, align 4
  %v27 = load float, ptr addrspace(5) %reg2
  %v28 = fadd float %v27, %v26
  store float %v28, ptr addrspace(5) %reg2
  br label %loop22.next
loop22.next:
  %loop22.i.next = add nuw nsw i32 %loop22.i, 1
  %v29 = icmp ult i32 %loop22.i.next, 1
  br i1 %v29, label %loop22, label %loop22.done
loop22.done:
  %v30 = load float, ptr addrspace(5) %reg2
  %v31 = bitcast float %v30 to i32
  %v32 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v31, i32 177, i32 15, i32 15, i1 true)
  %v33 = bitcast i32 %v32 to float
  %v34 = fadd float %v30, %v33
  %v35 = bitcast float %v34 to i32
  %v36 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v35, i32 78, i32 15, i32 15, i1 true)
  %v37 = bitcast i32 %v36 to float
  %v38 = fadd float %v34, %v37
  %v39 = bitcast float %v38 to i32
  %v40 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v39, i32 321, i32 15, i32 15, i1 true)
  %v41 = bitcast i32 %v40 to float
  %v42 = fadd float %v38, %v41
  %v43 = bitcast float %v42 to i32
  %v44 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v43, i32 320, i32 15, i32 15, i1 true)
  %v45 = bitcast i32 %v44 to float
  %v46 = fadd float %v42, %v45
  %v47 = bitcast float %v46 to i32
  %v48 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v47, i32 16415)
  %v49 = bitcast i32 %v48 to float
  %v50 = fadd float %v46, %v49
  %v51 = bitcast float %v50 to i32
  %v52 = and i32 %workitem.x, 63
  %v53 = xor i32 %v52, 32
  %v54 = shl i32 %v53, 2
  %v55 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v54, i32 %v51)
  %v56 = bitcast i32 %v55 to float
  %v57 = fadd float %v50, %v56
  %v58 = mul nuw i32 %workgroup.x, 4
  %v59 = zext i32 %v58 to i64
  %p60 = getelementptr i8, ptr addrspace(1) %arg1, i64 %v59
  br i1 %v2, label %if61, label %if61.done
if61:
  store float %v57, ptr addrspace(1) %p60, align 4
  br label %if61.done
if61.done:
  ret void
}

declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { nounwind "uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-dispatch-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" }
!0 = !{!"amdgpu-synchronize-as", !"local"}
!1 = !{i32 64, i32 1, i32 1}

target triple = "amdgcn-amd-amdhsa"

@k_0_local0 = internal addrspace(3) global [64 x i8] poison, align 16
define amdgpu_kernel void @k_0(ptr addrspace(1) noalias readonly %arg0, ptr addrspace(1) noalias %arg1) #0 !reqd_work_group_size !1 {
entry:
  %workitem.x = call range(i32 0, 64) i32 @llvm.amdgcn.workitem.id.x()
  %workgroup.x = call range(i32 0, 4294967295) i32 @llvm.amdgcn.workgroup.id.x()
  %reg2 = alloca i1, addrspace(5)
  %reg1 = alloca i1, addrspace(5)
  br label %body
body:
  %v1 = and i32 %workitem.x, 63
  %v2 = icmp slt i32 %workitem.x, 1
  store i1 false, ptr addrspace(5) %reg2
  store i1 false, ptr addrspace(5) %reg1
  %v3 = mul nsw i32 %workgroup.x, 70
  br label %loop4
loop4:
  %loop4.i = phi i32 [ 0, %body ], [ %loop4.i.next, %loop4.next ]
  %v5 = mul nsw i32 %loop4.i, 64
  %v6 = add nsw i32 %v5, %workitem.x
  %v7 = icmp slt i32 %v6, 70
  %v8 = add nsw i32 %v3, %v5
  %v9 = add nsw i32 %v8, %workitem.x
  %v10 = mul nuw i32 %v9, 4
  %v11 = zext i32 %v10 to i64
  %p12 = getelementptr i8, ptr addrspace(1) %arg0, i64 %v11
  br i1 %v7, label %if13, label %if13.done
if13:
  %v14 = load float, ptr addrspace(1) %p12, align 4
  br label %if13.done
if13.done:
  %v15 = phi float [ %v14, %if13 ], [ 0x0000000000000000, %loop4 ]
  %v16 = fcmp olt float 0x0000000000000000, %v15
  %v17 = select i1 %v7, i1 %v16, i1 false
  %v18 = load i1, ptr addrspace(5) %reg1
  %v19 = or i1 %v18, %v17
  store i1 %v19, ptr addrspace(5) %reg1
  br label %loop4.next
loop4.next:
  %loop4.i.next = add nuw nsw i32 %loop4.i, 1
  %v20 = icmp ult i32 %loop4.i.next, 2
  br i1 %v20, label %loop4, label %loop4.done
loop4.done:
  %v21 = load i1, ptr addrspace(5) %reg1
  %v22 = zext i1 %v21 to i8
  %p23 = getelementptr i8, ptr addrspace(3) @k_0_local0, i32 %workitem.x
  store i8 %v22, ptr addrspace(3) %p23, align 1
  fence syncscope("workgroup") release, !mmra !0
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire, !mmra !0
  br label %loop24
loop24:
  %loop24.i = phi i32 [ 0, %loop4.done ], [ %loop24.i.next, %loop24.next ]
  %v25 = mul nsw i32 %loop24.i, 64
  %v26 = add nsw i32 %v25, %v1
  %p27 = getelementptr i8, ptr addrspace(3) @k_0_local0, i32 %v26
  %v28 = load i8, ptr addrspace(3) %p27, align 1
  %v29 = icmp ne i8 %v28, 0
  %v30 = load i1, ptr addrspace(5) %reg2
  %v31 = or i1 %v30, %v29
  store i1 %v31, ptr addrspace(5) %reg2
  br label %loop24.next
loop24.next:
  %loop24.i.next = add nuw nsw i32 %loop24.i, 1
  %v32 = icmp ult i32 %loop24.i.next, 1
  br i1 %v32, label %loop24, label %loop24.done
loop24.done:
  %v33 = load i1, ptr addrspace(5) %reg2
  %v34 = call i64 @llvm.amdgcn.ballot.i64(i1 %v33)
  %v35 = icmp ne i64 %v34, 0
  %v36 = zext i1 %v35 to i8
  %v37 = mul nuw i32 %workgroup.x, 1
  %v38 = zext i32 %v37 to i64
  %p39 = getelementptr i8, ptr addrspace(1) %arg1, i64 %v38
  br i1 %v2, label %if40, label %if40.done
if40:
  store i8 %v36, ptr addrspace(1) %p39, align 1
  br label %if40.done
if40.done:
  ret void
}

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i64 @llvm.amdgcn.ballot.i64(i1)
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { nounwind "uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-dispatch-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" }
!0 = !{!"amdgpu-synchronize-as", !"local"}
!1 = !{i32 64, i32 1, i32 1}

target triple = "amdgcn-amd-amdhsa"

define amdgpu_kernel void @k_0(ptr addrspace(1) noalias readonly %arg0, ptr addrspace(1) noalias %arg1) #0 !reqd_work_group_size !1 {
entry:
  %workitem.x = call range(i32 0, 256) i32 @llvm.amdgcn.workitem.id.x()
  %workgroup.x = call range(i32 0, 4294967295) i32 @llvm.amdgcn.workgroup.id.x()
  br label %body
body:
  %v1 = mul nsw i32 %workitem.x, 4
  %v2 = mul nsw i32 %workgroup.x, 1024
  %v3 = add nsw i32 %v2, %v1
  %v4 = mul nsw i32 %workgroup.x, 256
  %v5 = add nsw i32 %v4, %workitem.x
  %v6 = icmp slt i32 %v5, 1750
  %v7 = mul nuw i32 %v3, 4
  %v8 = zext i32 %v7 to i64
  %p9 = getelementptr i8, ptr addrspace(1) %arg0, i64 %v8
  br i1 %v6, label %if10, label %if10.done
if10:
  %v11 = load <4 x float>, ptr addrspace(1) %p9, align 4
  br label %if10.done
if10.done:
  %v12 = phi <4 x float> [ %v11, %if10 ], [ <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %body ]
  %v13 = fmul <4 x float> %v12, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v14 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v12, <4 x float> <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>, <4 x float> <float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000>)
  %v15 = fcmp olt <4 x float> %v14, <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v16 = select <4 x i1> %v15, <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <4 x float> %v14
  %v17 = insertelement <4 x float> poison, float 0x7FF8000000000000, i64 0
  %v18 = shufflevector <4 x float> %v17, <4 x float> poison, <4 x i32> zeroinitializer
  %v19 = fcmp uno <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v20 = select <4 x i1> %v19, <4 x float> %v18, <4 x float> %v16
  %v21 = call <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float> %v20)
  %v22 = mul nuw i32 %v3, 4
  %v23 = zext i32 %v22 to i64
  %p24 = getelementptr i8, ptr addrspace(1) %arg1, i64 %v23
  br i1 %v6, label %if25, label %if25.done
if25:
  store <4 x i32> %v21, ptr addrspace(1) %p24, align 4
  br label %if25.done
if25.done:
  ret void
}

declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float>)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { nounwind "uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="256,256" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-dispatch-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" }
!0 = !{!"amdgpu-synchronize-as", !"local"}
!1 = !{i32 256, i32 1, i32 1}
