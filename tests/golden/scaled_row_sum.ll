target triple = "x86_64-unknown-linux-gnu"

define void @k_0(ptr noalias %args, ptr noalias %vars, i64 %begin, i64 %end) #0 {
entry:
  %reg1 = alloca <8 x float>
  %at0 = getelementptr inbounds ptr, ptr %args, i64 0
  %arg0 = load ptr, ptr %at0
  %at1 = getelementptr inbounds ptr, ptr %args, i64 1
  %arg1 = load ptr, ptr %at1
  br label %body
body:
  %v1 = icmp slt i64 %begin, %end
  br i1 %v1, label %grid, label %grid.done
grid:
  %grid.i = phi i64 [ %begin, %body ], [ %grid.i.next, %grid.next ]
  %v2 = add i64 %grid.i, 0
  store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %reg1
  %v3 = mul i64 %v2, 70
  br label %loop4
loop4:
  %loop4.i = phi i64 [ 0, %grid ], [ %loop4.i.next, %loop4.next ]
  %v5 = mul i64 %loop4.i, 8
  %v6 = insertelement <8 x i64> poison, i64 %v5, i64 0
  %v7 = shufflevector <8 x i64> %v6, <8 x i64> poison, <8 x i32> zeroinitializer
  %v8 = add <8 x i64> %v7, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %v9 = icmp slt <8 x i64> %v8, <i64 70, i64 70, i64 70, i64 70, i64 70, i64 70, i64 70, i64 70>
  %v10 = add i64 %v5, %v3
  %v11 = mul i64 %loop4.i, -8
  %v12 = add i64 %v11, 70
  %v13 = icmp sgt i64 %v12, 8
  %v14 = select i1 %v13, i64 8, i64 %v12
  %v15 = trunc i64 %v14 to i32
  %v16 = insertelement <8 x i32> poison, i32 %v15, i64 0
  %v17 = shufflevector <8 x i32> %v16, <8 x i32> poison, <8 x i32> zeroinitializer
  %v18 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v17
  %p19 = getelementptr float, ptr %arg0, i64 %v10
  %v20 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p19, i32 4, <8 x i1> %v18, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>)
  %v21 = fmul contract <8 x float> %v20, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v22 = select <8 x i1> %v9, <8 x float> %v21, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
  %v23 = load <8 x float>, ptr %reg1
  %v24 = fadd contract <8 x float> %v23, %v22
  store <8 x float> %v24, ptr %reg1
  br label %loop4.next
loop4.next:
  %loop4.i.next = add nuw nsw i64 %loop4.i, 1
  %v25 = icmp ult i64 %loop4.i.next, 9
  br i1 %v25, label %loop4, label %loop4.done
loop4.done:
  %v26 = load <8 x float>, ptr %reg1
  %v27 = shufflevector <8 x float> %v26, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v28 = shufflevector <8 x float> %v26, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v29 = fadd contract <4 x float> %v27, %v28
  %v30 = shufflevector <4 x float> %v29, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v31 = shufflevector <4 x float> %v29, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v32 = fadd contract <2 x float> %v30, %v31
  %v33 = shufflevector <2 x float> %v32, <2 x float> poison, <1 x i32> <i32 0>
  %v34 = shufflevector <2 x float> %v32, <2 x float> poison, <1 x i32> <i32 1>
  %v35 = extractelement <1 x float> %v33, i64 0
  %v36 = extractelement <1 x float> %v34, i64 0
  %v37 = fadd contract float %v35, %v36
  %p38 = getelementptr float, ptr %arg1, i64 %v2
  store float %v37, ptr %p38, align 4, !alias.scope !5, !noalias !6
  br label %grid.next
grid.next:
  %grid.i.next = add nuw nsw i64 %grid.i, 1
  %v39 = icmp slt i64 %grid.i.next, %end
  br i1 %v39, label %grid, label %grid.done
grid.done:
  ret void
}

declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
attributes #0 = { nounwind "prefer-vector-width"="256" "no-trapping-math"="true" }
!0 = distinct !{!0}
!1 = distinct !{!1, !0}
!2 = !{!1}
!3 = !{!4}
!4 = distinct !{!4, !0}
!5 = !{!4}
!6 = !{!1}
