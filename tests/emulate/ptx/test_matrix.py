"""Matrices that a warp holds together, with the fragments that the PTX ISA tabulates."""

import ml_dtypes
import numpy as np
import pytest

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def a_place(shape, kind, lane, i):
    """Row and column of element i of A, as the specification lists them for each shape."""
    g, t = lane >> 2, lane % 4
    match shape, kind:
        case "m16n8k16", "f16" | "bf16":
            return (g if i < 2 or 4 <= i < 6 else g + 8), t * 2 + (i & 1) + (8 if i >= 4 else 0)
        case "m16n8k8", "f16" | "bf16":
            return (g if i < 2 else g + 8), t * 2 + (i & 1)
        case "m16n8k8", "tf32":
            return (g if i in (0, 2) else g + 8), (t if i < 2 else t + 4)
        case "m16n8k4", "tf32":
            return (g if i == 0 else g + 8), t
        case "m16n8k32", _:
            row = g if i < 4 or 8 <= i < 12 else g + 8
            return row, t * 4 + (i & 3) + (16 if i >= 8 else 0)
        case "m16n8k16", "s8" | "u8":
            return (g if i < 4 else g + 8), t * 4 + (i & 3)
        case "m8n8k16", "s8" | "u8":
            return g, t * 4 + i
        case "m8n8k4", "f64":
            return g, t
    raise AssertionError(shape)


def b_place(shape, kind, lane, i):
    g, t = lane >> 2, lane % 4
    match shape, kind:
        case ("m16n8k16", "f16" | "bf16"):
            return (t * 2 + (i & 1) + (8 if i >= 2 else 0)), g
        case ("m16n8k8", "f16" | "bf16"):
            return t * 2 + i, g
        case ("m16n8k8", "tf32"):
            return (t if i == 0 else t + 4), g
        case ("m16n8k4", "tf32") | ("m8n8k4", "f64"):
            return t, g
        case ("m16n8k32", _):
            return t * 4 + (i & 3) + (16 if i >= 4 else 0), g
        case (_, "s8" | "u8"):
            return t * 4 + i, g
    raise AssertionError(shape)


def c_place(lane, i):
    g, t = lane >> 2, lane % 4
    return g + (8 if i >= 2 else 0), t * 2 + (i & 1)


DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8,
    "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "f64": np.float64, "f32": np.float32, "s32": np.int32,
}  # fmt: skip


def fragments(matrix, place, count, dtype):
    """The elements of a matrix in the order of lanes, `count` each."""
    flat = [[matrix[place(lane, i)] for i in range(count)] for lane in range(32)]
    return np.array(flat).astype(dtype)


def kernel(instruction, words):
    """Loads a, b, c (words of 32 or 64 bits a lane), runs the instruction, stores d."""
    (a, b, c, d), bits = words[:4], words[4]
    load = []
    names = {}
    for n, (name, count) in enumerate((("a", a), ("b", b), ("c", c))):
        names[name] = "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"
        load.append(f"ld.param.u64 %x, [p{n}]; mad.wide.u32 %x, %i, {count * bits // 8}, %x;")
        load += [f"ld.global.b{bits} %{name}{i}, [%x+{i * bits // 8}];" for i in range(count)]
    names["d"] = "{" + ", ".join(f"%d{i}" for i in range(d)) + "}"
    store = [f"st.global.b{bits} [%x+{i * bits // 8}], %d{i};" for i in range(d)]
    return (
        HEAD
        + f""".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2,
.param .u64 p3) {{
.reg .b64 %x; .reg .b32 %i; .reg .b{bits} %a<8>, %b<8>, %c<8>, %d<8>;
mov.u32 %i, %tid.x;
{" ".join(load)}
{instruction} {names["d"]}, {names["a"]}, {names["b"]}, {names["c"]};
ld.param.u64 %x, [p3]; mad.wide.u32 %x, %i, {d * bits // 8}, %x;
{" ".join(store)}
ret; }}"""
    )


CASES = [
    ("m16n8k16", "f16", "f32"), ("m16n8k16", "bf16", "f32"), ("m16n8k8", "f16", "f32"),
    ("m16n8k8", "bf16", "f32"), ("m16n8k8", "tf32", "f32"), ("m16n8k4", "tf32", "f32"),
    ("m16n8k32", "s8", "s32"), ("m16n8k32", "u8", "s32"), ("m16n8k16", "s8", "s32"),
    ("m8n8k16", "u8", "s32"), ("m16n8k32", "e4m3", "f32"), ("m16n8k32", "e5m2", "f32"),
    ("m16n8k16", "f16", "f16"), ("m8n8k4", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "sums"), CASES)
def test_products_of_fragments(gpu, shape, kind, sums):
    m, n, k = (int(v) for v in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
    rng = np.random.default_rng(8)
    whole = kind in ("s8", "u8")
    make = (
        (lambda *s: rng.integers(0 if kind == "u8" else -128, 128, s))
        if whole
        else (lambda *s: rng.integers(-8, 9, s) / 4)
    )
    a, b, c = make(m, k), make(k, n), make(m, n)
    dtype, total = DTYPES[kind], DTYPES[sums]
    counts = [m * k // 32, n * k // 32, m * n // 32]
    fa = fragments(a, lambda lane, i: a_place(shape, kind, lane, i), counts[0], dtype)
    fb = fragments(b, lambda lane, i: b_place(shape, kind, lane, i), counts[1], dtype)
    fc = fragments(c, c_place, counts[2], total)
    bits = 64 if kind == "f64" else 32
    words = [x.nbytes // 32 // (bits // 8) for x in (fa, fb, fc, fc)]
    name = f"mma.sync.aligned.{shape}.row.col.{sums}.{kind}.{kind}.{sums}"
    result = np.zeros_like(fc)
    *_, found = gpu.launch(kernel(name, [*words, bits]), "k", 1, 32, fa, fb, fc, result)
    expected = fragments(a @ b + c, c_place, counts[2], "f8")
    np.testing.assert_array_equal(found.astype("f8"), expected)


LDMATRIX = (
    HEAD
    + """.visible .entry k(.param .u64 p0, .param .u64 p1) {
.reg .b64 %x; .reg .b32 %i, %s, %r<8>; .shared .align 16 .b8 tile[512];
mov.u32 %i, %tid.x; mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s;
ld.param.u64 %x, [p0]; mad.wide.u32 %x, %i, 16, %x;
ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%x]; st.shared.v4.u32 [%s], {%r0, %r1, %r2, %r3};
bar.warp.sync -1;
LOAD
ld.param.u64 %x, [p1]; mad.wide.u32 %x, %i, 16, %x;
st.global.v4.u32 [%x], {%r4, %r5, %r6, %r7}; ret; }"""
)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded(gpu, transposed):
    tiles = np.arange(256, dtype="u2").reshape(4, 8, 8)
    word = ".trans" if transposed else ""
    code = f"ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%r4, %r5, %r6, %r7}}, [%s];"
    _, found = gpu.launch(LDMATRIX.replace("LOAD", code), "k", 1, 32, tiles, np.zeros(256, "u2"))
    seen = tiles.transpose(0, 2, 1) if transposed else tiles
    found = found.reshape(32, 4, 2)
    for lane in range(32):
        for r in range(4):
            at = 2 * (lane % 4)
            assert found[lane, r].tolist() == seen[r, lane // 4, at : at + 2].tolist()


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_stored_where_they_were_loaded(gpu, transposed):
    tiles = np.arange(256, dtype="u2").reshape(4, 8, 8)
    word = ".trans" if transposed else ""
    code = f"""ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%s];
    bar.warp.sync -1;
    stmatrix.sync.aligned.m8n8.x4{word}.shared.b16 [%s], {{%r4, %r5, %r6, %r7}};
    bar.warp.sync -1; ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%s];"""
    _, found = gpu.launch(LDMATRIX.replace("LOAD", code), "k", 1, 32, tiles, np.zeros(256, "u2"))
    expected = tiles.transpose(0, 2, 1) if transposed else tiles
    assert (found.reshape(4, 8, 8) == expected).all()


def test_a_matrix_is_transposed_in_registers(run):
    matrix = np.arange(64, dtype="u2").reshape(8, 8)
    found = run("movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", matrix.view("u4"), out="u4")
    assert (found.view("u2").reshape(8, 8) == matrix.T).all()
