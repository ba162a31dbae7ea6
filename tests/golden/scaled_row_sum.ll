target triple = "x86_64-unknown-linux-gnu"

define void @k_0(ptr noalias %args, ptr noalias %vars, i64 %begin, i64 %end) #0 {
entry:
  %reg1 = alloca <8 x float>
  %reg2 = alloca <8 x float>
  %reg3 = alloca <8 x float>
  %reg4 = alloca <8 x float>
  %at0 = getelementptr inbounds ptr, ptr %args, i64 0
  %arg0 = load ptr, ptr %at0
  %reg5 = alloca <4 x float>
  %at1 = getelementptr inbounds ptr, ptr %args, i64 1
  %arg1 = load ptr, ptr %at1
  br label %body
body:
  %v1 = mul i64 1, 4
  %v2 = insertelement <4 x i64> poison, i64 %v1, i64 0
  %v3 = shufflevector <4 x i64> %v2, <4 x i64> poison, <4 x i32> zeroinitializer
  %v4 = add <4 x i64> %v3, <i64 0, i64 1, i64 2, i64 3>
  %v5 = icmp slt <4 x i64> %v4, <i64 6, i64 6, i64 6, i64 6>
  %v6 = mul i64 1, -4
  %v7 = add i64 %v6, 6
  %v8 = icmp sgt i64 %v7, 4
  %v9 = select i1 %v8, i64 4, i64 %v7
  %v10 = trunc i64 %v9 to i32
  %v11 = insertelement <4 x i32> poison, i32 %v10, i64 0
  %v12 = shufflevector <4 x i32> %v11, <4 x i32> poison, <4 x i32> zeroinitializer
  %v13 = icmp slt <4 x i32> <i32 0, i32 1, i32 2, i32 3>, %v12
  %v14 = icmp slt i64 %begin, %end
  br i1 %v14, label %grid, label %grid.done
grid:
  %grid.i = phi i64 [ %begin, %body ], [ %grid.i.next, %grid.next ]
  %v15 = add i64 %grid.i, 0
  store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg1
  %v16 = mul i64 %v15, 70
  store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg2
  store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg3
  store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg4
  br label %loop17
loop17:
  %loop17.i = phi i64 [ 0, %grid ], [ %loop17.i.next, %loop17.next ]
  %v18 = mul i64 %loop17.i, 32
  %v19 = add i64 %v18, %v16
  %p20 = getelementptr float, ptr %arg0, i64 %v19
  %v21 = load <8 x float>, ptr %p20, align 4, !alias.scope !2, !noalias !3
  %v22 = fmul contract <8 x float> %v21, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v23 = load <8 x float>, ptr %reg1
  %v24 = fadd contract <8 x float> %v23, %v22
  store <8 x float> %v24, ptr %reg1
  %v25 = add i64 %v19, 8
  %p26 = getelementptr float, ptr %arg0, i64 %v25
  %v27 = load <8 x float>, ptr %p26, align 4, !alias.scope !2, !noalias !3
  %v28 = fmul contract <8 x float> %v27, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v29 = load <8 x float>, ptr %reg2
  %v30 = fadd contract <8 x float> %v29, %v28
  store <8 x float> %v30, ptr %reg2
  %v31 = add i64 %v19, 16
  %p32 = getelementptr float, ptr %arg0, i64 %v31
  %v33 = load <8 x float>, ptr %p32, align 4, !alias.scope !2, !noalias !3
  %v34 = fmul contract <8 x float> %v33, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v35 = load <8 x float>, ptr %reg3
  %v36 = fadd contract <8 x float> %v35, %v34
  store <8 x float> %v36, ptr %reg3
  %v37 = add i64 %v19, 24
  %p38 = getelementptr float, ptr %arg0, i64 %v37
  %v39 = load <8 x float>, ptr %p38, align 4, !alias.scope !2, !noalias !3
  %v40 = fmul contract <8 x float> %v39, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v41 = load <8 x float>, ptr %reg4
  %v42 = fadd contract <8 x float> %v41, %v40
  store <8 x float> %v42, ptr %reg4
  br label %loop17.next
loop17.next:
  %loop17.i.next = add nuw nsw i64 %loop17.i, 1
  %v43 = icmp ult i64 %loop17.i.next, 2
  br i1 %v43, label %loop17, label %loop17.done
loop17.done:
  %v44 = load <8 x float>, ptr %reg1
  %v45 = load <8 x float>, ptr %reg2
  %v46 = fadd contract <8 x float> %v44, %v45
  %v47 = load <8 x float>, ptr %reg3
  %v48 = load <8 x float>, ptr %reg4
  %v49 = fadd contract <8 x float> %v47, %v48
  %v50 = fadd contract <8 x float> %v46, %v49
  %v51 = shufflevector <8 x float> %v50, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v52 = shufflevector <8 x float> %v50, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v53 = fadd contract <4 x float> %v51, %v52
  %v54 = shufflevector <4 x float> %v53, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v55 = shufflevector <4 x float> %v53, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v56 = fadd contract <2 x float> %v54, %v55
  %v57 = shufflevector <2 x float> %v56, <2 x float> poison, <1 x i32> <i32 0>
  %v58 = shufflevector <2 x float> %v56, <2 x float> poison, <1 x i32> <i32 1>
  %v59 = extractelement <1 x float> %v57, i64 0
  %v60 = extractelement <1 x float> %v58, i64 0
  %v61 = fadd contract float %v59, %v60
  store <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg5
  br label %loop62
loop62:
  %loop62.i = phi i64 [ 0, %loop17.done ], [ %loop62.i.next, %loop62.next ]
  %v63 = mul i64 %loop62.i, 4
  %v64 = insertelement <4 x i64> poison, i64 %v63, i64 0
  %v65 = shufflevector <4 x i64> %v64, <4 x i64> poison, <4 x i32> zeroinitializer
  %v66 = add <4 x i64> %v65, <i64 0, i64 1, i64 2, i64 3>
  %v67 = add i64 %v63, %v16
  %v68 = add i64 %v67, 64
  %v69 = mul i64 %loop62.i, -4
  %v70 = add i64 %v69, 6
  %v71 = icmp sgt i64 %v70, 4
  %v72 = select i1 %v71, i64 4, i64 %v70
  %v73 = trunc i64 %v72 to i32
  %v74 = insertelement <4 x i32> poison, i32 %v73, i64 0
  %v75 = shufflevector <4 x i32> %v74, <4 x i32> poison, <4 x i32> zeroinitializer
  %p76 = getelementptr float, ptr %arg0, i64 %v68
  %v77 = load <4 x float>, ptr %p76, align 4, !alias.scope !2, !noalias !3
  %v78 = fmul contract <4 x float> %v77, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v79 = load <4 x float>, ptr %reg5
  %v80 = fadd contract <4 x float> %v79, %v78
  store <4 x float> %v80, ptr %reg5
  br label %loop62.next
loop62.next:
  %loop62.i.next = add nuw nsw i64 %loop62.i, 1
  %v81 = icmp ult i64 %loop62.i.next, 1
  br i1 %v81, label %loop62, label %loop62.done
loop62.done:
  %v82 = add i64 %v1, %v16
  %v83 = add i64 %v82, 64
  %p84 = getelementptr float, ptr %arg0, i64 %v83
  %v85 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %p84, i32 4, <4 x i1> %v13, <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>)
  %v86 = fmul contract <4 x float> %v85, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v87 = select <4 x i1> %v5, <4 x float> %v86, <4 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v88 = load <4 x float>, ptr %reg5
  %v89 = fadd contract <4 x float> %v88, %v87
  store <4 x float> %v89, ptr %reg5
  %v90 = load <4 x float>, ptr %reg5
  %v91 = shufflevector <4 x float> %v90, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v92 = shufflevector <4 x float> %v90, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v93 = fadd contract <2 x float> %v91, %v92
  %v94 = shufflevector <2 x float> %v93, <2 x float> poison, <1 x i32> <i32 0>
  %v95 = shufflevector <2 x float> %v93, <2 x float> poison, <1 x i32> <i32 1>
  %v96 = extractelement <1 x float> %v94, i64 0
  %v97 = extractelement <1 x float> %v95, i64 0
  %v98 = fadd contract float %v96, %v97
  %v99 = fadd contract float %v61, %v98
  %p100 = getelementptr float, ptr %arg1, i64 %v15
  store float %v99, ptr %p100, align 4, !alias.scope !5, !noalias !6
  br label %grid.next
grid.next:
  %grid.i.next = add nuw nsw i64 %grid.i, 1
  %v101 = icmp slt i64 %grid.i.next, %end
  br i1 %v101, label %grid, label %grid.done
grid.done:
  ret void
}

declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32, <4 x i1>, <4 x float>)
attributes #0 = { nounwind "prefer-vector-width"="256" "no-trapping-math"="true" }
!0 = distinct !{!0}
!1 = distinct !{!1, !0}
!2 = !{!1}
!3 = !{!4}
!4 = distinct !{!4, !0}
!5 = !{!4}
!6 = !{!1}
