"""Products of matrices that a warp holds, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# Each thread loads its registers one after the other: four of a, two of b, four of c.
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
  .reg .b32 %r<8>;
  .reg .f32 %f<8>;
  .reg .b64 %p<8>;
  ld.param.u64 %p0, [a];
  ld.param.u64 %p1, [b];
  ld.param.u64 %p2, [c];
  ld.param.u64 %p3, [d];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %p4, %r0, 16;
  mul.wide.u32 %p5, %r0, 8;
  add.u64 %p0, %p0, %p4;
  add.u64 %p1, %p1, %p5;
  add.u64 %p2, %p2, %p4;
  add.u64 %p3, %p3, %p4;
  ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%p0];
  ld.global.v2.b32 {{%r5, %r6}}, [%p1];
  ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%p2];
  mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32
    {{%f4, %f5, %f6, %f7}}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {{%f0, %f1, %f2, %f3}};
  st.global.v4.f32 [%p3], {{%f4, %f5, %f6, %f7}};
  ret;
}}
"""


@pytest.mark.parametrize("kind", DTYPES)
def test_mma_multiplies_what_the_threads_hold(gpu, kind):
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(DTYPES[kind]) for shape in ((16, 16), (16, 8)))
    c = random.standard_normal((16, 8)).astype(np.float32)
    g, t = np.divmod(np.arange(32), 4)
    pair = np.arange(2)
    # The ISA's figures: a[lane, register, element], b likewise, c[lane, register].
    ours_a = np.stack([
        a[(g + down)[:, None], (2 * t + right)[:, None] + pair]
        for right in (0, 8) for down in (0, 8)
    ], axis=1)  # fmt: skip
    ours_b = np.stack([b[(2 * t + down)[:, None] + pair, g[:, None]] for down in (0, 8)], axis=1)
    columns = (2 * t)[:, None] + pair
    ours_c = np.concatenate([c[(g + down)[:, None], columns] for down in (0, 8)], axis=1)
    result = gpu.launch(
        KERNEL.format(kind=kind), "k", 1, 32,
        np.ascontiguousarray(ours_a).view(np.uint32), np.ascontiguousarray(ours_b).view(np.uint32),
        np.ascontiguousarray(ours_c), np.zeros((32, 4), np.float32),
    )[3]  # fmt: skip
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    found = np.empty((16, 8))
    found[g[:, None], columns], found[(g + 8)[:, None], columns] = result[:, :2], result[:, 2:]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
