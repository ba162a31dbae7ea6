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
  %v1 = and i32 %workitem.x, 31
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
  %p10 = getelementptr float, ptr addrspace(1) %arg0, i32 %v9
  br i1 %v7, label %if11, label %if11.done
if11:
  %v12 = load float, ptr addrspace(1) %p10, align 4
  br label %if11.done
if11.done:
  %v13 = phi float [ %v12, %if11 ], [ 0x0000000000000000, %loop4 ]
  %v14 = select i1 %v7, float %v13, float 0x0000000000000000
  %v15 = load float, ptr addrspace(5) %reg1
  %v16 = fadd float %v15, %v14
  store float %v16, ptr addrspace(5) %reg1
  br label %loop4.next
loop4.next:
  %loop4.i.next = add nuw nsw i32 %loop4.i, 1
  %v17 = icmp ult i32 %loop4.i.next, 2
  br i1 %v17, label %loop4, label %loop4.done
loop4.done:
  %v18 = load float, ptr addrspace(5) %reg1
  %p19 = getelementptr float, ptr addrspace(3) @k_0_local0, i32 %workitem.x
  store float %v18, ptr addrspace(3) %p19, align 4
  fence syncscope("workgroup") release, !mmra !0
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire, !mmra !0
  br label %loop20
loop20:
  %loop20.i = phi i32 [ 0, %loop4.done ], [ %loop20.i.next, %loop20.next ]
  %v21 = mul nsw i32 %loop20.i, 32
  %v22 = add nsw i32 %v21, %v1
  %p23 = getelementptr float, ptr addrspace(3) @k_0_local0, i32 %v22
  %v24 = load float, ptr addrspace(3) %p23, align 4
  %v25 = load float, ptr addrspace(5) %reg2
  %v26 = fadd float %v25, %v24
  store float %v26, ptr addrspace(5) %reg2
  br label %loop20.next
loop20.next:
  %loop20.i.next = add nuw nsw i32 %loop20.i, 1
  %v27 = icmp ult i32 %loop20.i.next, 2
  br i1 %v27, label %loop20, label %loop20.done
loop20.done:
  %v28 = load float, ptr addrspace(5) %reg2
  %v29 = bitcast float %v28 to i32
  %v30 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v29, i32 177, i32 15, i32 15, i1 true)
  %v31 = bitcast i32 %v30 to float
  %v32 = fadd float %v28, %v31
  %v33 = bitcast float %v32 to i32
  %v34 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v33, i32 78, i32 15, i32 15, i1 true)
  %v35 = bitcast i32 %v34 to float
  %v36 = fadd float %v32, %v35
  %v37 = bitcast float %v36 to i32
  %v38 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v37, i32 321, i32 15, i32 15, i1 true)
  %v39 = bitcast i32 %v38 to float
  %v40 = fadd float %v36, %v39
  %v41 = bitcast float %v40 to i32
  %v42 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v41, i32 320, i32 15, i32 15, i1 true)
  %v43 = bitcast i32 %v42 to float
  %v44 = fadd float %v40, %v43
  %v45 = bitcast float %v44 to i32
  %v46 = call i32 @llvm.amdgcn.permlanex16.i32(i32 poison, i32 %v45, i32 1985229328, i32 -19088744, i1 false, i1 false)
  %v47 = bitcast i32 %v46 to float
  %v48 = fadd float %v44, %v47
  %p49 = getelementptr float, ptr addrspace(1) %arg1, i32 %workgroup.x
  br i1 %v2, label %if50, label %if50.done
if50:
  store float %v48, ptr addrspace(1) %p49, align 4
  br label %if50.done
if50.done:
  ret void
}

declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1, i1)
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
  %v1 = and i32 %workitem.x, 31
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
  %p10 = getelementptr float, ptr addrspace(1) %arg0, i32 %v9
  br i1 %v7, label %if11, label %if11.done
if11:
  %v12 = load float, ptr addrspace(1) %p10, align 4
  br label %if11.done
if11.done:
  %v13 = phi float [ %v12, %if11 ], [ 0x0000000000000000, %loop4 ]
  %v14 = fcmp olt float 0x0000000000000000, %v13
  %v15 = select i1 %v7, i1 %v14, i1 false
  %v16 = load i1, ptr addrspace(5) %reg1
  %v17 = or i1 %v16, %v15
  store i1 %v17, ptr addrspace(5) %reg1
  br label %loop4.next
loop4.next:
  %loop4.i.next = add nuw nsw i32 %loop4.i, 1
  %v18 = icmp ult i32 %loop4.i.next, 2
  br i1 %v18, label %loop4, label %loop4.done
loop4.done:
  %v19 = load i1, ptr addrspace(5) %reg1
  %v20 = zext i1 %v19 to i8
  %p21 = getelementptr i8, ptr addrspace(3) @k_0_local0, i32 %workitem.x
  store i8 %v20, ptr addrspace(3) %p21, align 1
  fence syncscope("workgroup") release, !mmra !0
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire, !mmra !0
  br label %loop22
loop22:
  %loop22.i = phi i32 [ 0, %loop4.done ], [ %loop22.i.next, %loop22.next ]
  %v23 = mul nsw i32 %loop22.i, 32
  %v24 = add nsw i32 %v23, %v1
  %p25 = getelementptr i8, ptr addrspace(3) @k_0_local0, i32 %v24
  %v26 = load i8, ptr addrspace(3) %p25, align 1
  %v27 = icmp ne i8 %v26, 0
  %v28 = load i1, ptr addrspace(5) %reg2
  %v29 = or i1 %v28, %v27
  store i1 %v29, ptr addrspace(5) %reg2
  br label %loop22.next
loop22.next:
  %loop22.i.next = add nuw nsw i32 %loop22.i, 1
  %v30 = icmp ult i32 %loop22.i.next, 2
  br i1 %v30, label %loop22, label %loop22.done
loop22.done:
  %v31 = load i1, ptr addrspace(5) %reg2
  %v32 = call i32 @llvm.amdgcn.ballot.i32(i1 %v31)
  %v33 = icmp ne i32 %v32, 0
  %v34 = zext i1 %v33 to i8
  %p35 = getelementptr i8, ptr addrspace(1) %arg1, i32 %workgroup.x
  br i1 %v2, label %if36, label %if36.done
if36:
  store i8 %v34, ptr addrspace(1) %p35, align 1
  br label %if36.done
if36.done:
  ret void
}

declare i32 @llvm.amdgcn.ballot.i32(i1)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
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
  %p7 = getelementptr float, ptr addrspace(1) %arg0, i32 %v3
  br i1 %v6, label %if8, label %if8.done
if8:
  %v9 = load <4 x float>, ptr addrspace(1) %p7, align 4
  br label %if8.done
if8.done:
  %v10 = phi <4 x float> [ %v9, %if8 ], [ <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %body ]
  %v11 = fmul <4 x float> %v10, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v12 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v10, <4 x float> <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>, <4 x float> <float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000>)
  %v13 = fcmp olt <4 x float> %v12, <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v14 = select <4 x i1> %v13, <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <4 x float> %v12
  %v15 = insertelement <4 x float> poison, float 0x7FF8000000000000, i64 0
  %v16 = shufflevector <4 x float> %v15, <4 x float> poison, <4 x i32> zeroinitializer
  %v17 = fcmp uno <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v18 = select <4 x i1> %v17, <4 x float> %v16, <4 x float> %v14
  %v19 = call <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float> %v18)
  %p20 = getelementptr i32, ptr addrspace(1) %arg1, i32 %v3
  br i1 %v6, label %if21, label %if21.done
if21:
  store <4 x i32> %v19, ptr addrspace(1) %p20, align 4
  br label %if21.done
if21.done:
  ret void
}

declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare <4 x i32> @llvm.fptosi.sat.v4i32.v4f32(<4 x float>)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { nounwind "uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="256,256" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-dispatch-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-queue-ptr" "amdgpu-no-implicitarg-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-heap-ptr" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-lds-kernel-id" "amdgpu-no-flat-scratch-init" }
!0 = !{!"amdgpu-synchronize-as", !"local"}
!1 = !{i32 256, i32 1, i32 1}
