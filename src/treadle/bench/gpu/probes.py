"""Kernels that do nothing but multiply, as PTX text: `probe(out, steps)`.

Each writes its sums only where they are a number that they never are, so that nobody can leave the
multiplications out.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Probe", "fma_probe", "mma_probe", "wgmma_probe"]

_CHAINS = 16  # of multiply-adds that do not wait for each other
_UNROLLED = 8
_BLOCKS_OF_SUMS = 8  # of mma.sync
_COLUMNS, _DEPTHS = 256, 4  # of wgmma: four steps of 16 through rows of 128 bytes
_ROW_BYTES, _A_BYTES = 128, 64 * 128


@dataclass(frozen=True)
class Probe:
    """`operations` of one warp in one step."""

    text: str
    operations: float


def fma_probe() -> Probe:
    """Chains of fma.rn.f32."""
    sums = [f"%f{i}" for i in range(_CHAINS)]
    body = [f"fma.rn.f32 {s}, {s}, %a, %b;" for _ in range(_UNROLLED) for s in sums]
    text = _probe(
        "7.0", "sm_75", ".reg .f32 %a, %b, %f<16>;",
        ["mov.f32 %a, 0f3F7FFF00;", "mov.f32 %b, 0f38000000;", *_first(sums)], body, sums,
    )  # fmt: skip
    return Probe(text, 2.0 * 32 * _CHAINS * _UNROLLED)


def mma_probe() -> Probe:
    """mma.sync.m16n8k16, which GPUs from sm_80 on have."""
    sums = [f"%f{i}" for i in range(4 * _BLOCKS_OF_SUMS)]
    body = []
    for i in range(_BLOCKS_OF_SUMS):
        block = ", ".join(sums[4 * i : 4 * i + 4])
        body.append(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            f"{{{block}}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{{block}}};"
        )
    start = ["mov.u32 %t, %tid.x;"]
    for i in range(6):
        start += [*_random_pair("%t"), f"mov.u32 %r{i}, %v;"]
    registers = f".reg .b32 %r<6>, %t, %v; .reg .f32 %f<{4 * _BLOCKS_OF_SUMS}>;"
    text = _probe("7.0", "sm_80", registers, [*start, *_first(sums)], body, sums)
    return Probe(text, 2.0 * 16 * 8 * 16 * _BLOCKS_OF_SUMS)


def wgmma_probe() -> Probe:
    """wgmma.m64n256k16 of sm_90a: both matrices in shared memory, swizzled by 128 bytes."""
    sums = [f"%f{i}" for i in range(_COLUMNS // 2)]
    nbytes = _A_BYTES + _COLUMNS * _ROW_BYTES
    start = [
        "mov.u32 %s, tile;", "mov.u32 %t, %tid.x;", "mad.lo.u32 %i, %t, 4, %s;",
        f"add.u32 %e, %s, {nbytes};", "FILL:", *_random_pair("%t"),
        "st.shared.u32 [%i], %v;", "add.u32 %i, %i, 512;", "setp.lt.u32 %p, %i, %e;",
        "@%p bra FILL;", "fence.proxy.async.shared::cta;", "bar.sync 0;", *_first(sums),
        # Start and rows of 128 bytes, eights of them 1024 apart.
        "shr.u32 %i, %s, 4;", "cvt.u64.u32 %a, %i;",
        f"or.b64 %a, %a, {1 << 62 | (1024 >> 4) << 32 | 1 << 16};",
        f"add.u64 %b, %a, {_A_BYTES >> 4};",
    ]  # fmt: skip
    multiply = f"wgmma.mma_async.sync.aligned.m64n{_COLUMNS}k16.f32.bf16.bf16"
    body = ["wgmma.fence.sync.aligned;"]
    for depth in range(_DEPTHS):
        step = 32 * depth >> 4
        body += [f"add.u64 %x, %a, {step};", f"add.u64 %y, %b, {step};"]
        body.append(f"{multiply} {{{', '.join(sums)}}}, %x, %y, 1, 1, 1, 0, 0;")
    body += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    registers = (
        f".reg .b64 %a, %b, %x, %y; .reg .b32 %s, %t, %i, %e, %v; .reg .f32 %f<{_COLUMNS // 2}>; "
        f".shared .align 1024 .b8 tile[{nbytes}];"
    )
    text = _probe("8.0", "sm_90a", registers, start, body, sums)
    return Probe(text, 2.0 * 64 * _COLUMNS * 16 * _DEPTHS / 4)


def _random_pair(state: str) -> list[str]:
    """%v becomes two bfloat16 between 0.5 and 1, of either sign."""
    return [
        f"mad.lo.u32 {state}, {state}, 1664525, 1013904223;",
        f"and.b32 %v, {state}, 0x807F807F;",
        "or.b32 %v, %v, 0x3F003F00;",
    ]


def _first(sums: list[str]) -> list[str]:
    return [f"mov.f32 {name}, 0f00000000;" for name in sums]


def _probe(
    version: str, target: str, registers: str, start: list[str], body: list[str],
    sums: list[str],
) -> str:  # fmt: skip
    total = [f"add.f32 {sums[0]}, {sums[0]}, {other};" for other in sums[1:]]
    lines = [
        f".version {version}", f".target {target}", ".address_size 64",
        ".visible .entry probe(.param .u64 out, .param .u32 steps) {",
        f".reg .b64 %out; .reg .u32 %n; .reg .pred %p, %q; {registers}",
        "ld.param.u64 %out, [out];", "ld.param.u32 %n, [steps];", *start, "LOOP:", *body,
        "sub.u32 %n, %n, 1;", "setp.ne.u32 %q, %n, 0;", "@%q bra LOOP;", *total,
        f"setp.eq.f32 %p, {sums[0]}, 0f7F7FFFFF;", f"@%p st.global.f32 [%out], {sums[0]};",
        "ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
