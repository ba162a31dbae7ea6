"""Launches of MLX's kernels as its host code makes them, and what NumPy computes.

CASES["gemv_float32_..."].check(run): what a kernel's parameters mean is in the headers of the
wheel that has the library.
"""

import struct
from dataclasses import dataclass, field

import numpy as np
from ml_dtypes import bfloat16

KINDS = {
    "float32": np.float32, "float16": np.float16, "bfloat16": bfloat16, "int8": np.int8,
    "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool_": np.bool_,
}  # fmt: skip
FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = tuple(kind for kind in KINDS if "int" in kind)
_STEP = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def checks_fences(name):
    """Whether a kernel's barriers name all memory that they are there for; gemv's name none."""
    return not name.startswith("gemv")


@dataclass
class Case:
    """`buffers` by index; `expected` are values of outputs, `close` an error relative to size."""

    name: str
    grid: tuple
    block: tuple
    buffers: dict
    expected: dict
    close: float = 0
    constants: dict = field(default_factory=dict)
    size: float = 1.0  # of values that are added up

    def check(self, run):
        """Compares what a launch gives, and counts the outputs.

        `run(name, constants, grid, block, buffers)` launches; arrays are changed in place.
        """
        buffers = {
            index: data.copy() if isinstance(data, np.ndarray) else data
            for index, data in self.buffers.items()
        }
        run(self.name, self.constants, self.grid, self.block, buffers)
        for index, wanted in self.expected.items():
            found = buffers[index]
            if not self.close:
                np.testing.assert_array_equal(found, wanted.astype(found.dtype), self.name)
                continue
            np.testing.assert_allclose(
                found.astype(np.float64), wanted.astype(np.float64), rtol=self.close,
                atol=self.close * self.size, err_msg=self.name,
            )  # fmt: skip
        return len(self.expected)


CASES: dict[str, Case] = {}


def _add(name, grid, block, buffers, expected, **options):
    three = lambda size: (*(size if isinstance(size, tuple) else (size,)), 1, 1)[:3]
    CASES[name] = Case(name, three(grid), three(block), buffers, expected, **options)


def _numbers(kind, shape, seed=0, low=-2.0, high=2.0):
    dtype = np.dtype(KINDS[kind])
    random = np.random.default_rng(seed)
    if kind == "bool_":
        return random.integers(0, 2, shape).astype(bool)
    if kind in INTEGERS:
        least = 0 if dtype.kind == "u" else -50
        return random.integers(least, 50, shape).astype(dtype)
    return random.uniform(low, high, shape).astype(np.float32).astype(dtype)


def _out(kind, shape):
    return np.zeros(shape, KINDS[kind])


def i32(*values):
    return struct.pack(f"<{len(values)}i", *values)


def i64(*values):
    return struct.pack(f"<{len(values)}q", *values)


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def wide(array):
    return (
        array.astype(np.float64) if array.dtype.kind in "fV" or array.dtype == bfloat16 else array
    )


# -- elementwise

_N = 256
_UNARY = {
    "Abs": np.abs, "Ceil": np.ceil, "Floor": np.floor, "Negative": np.negative, "Sign": np.sign,
    "Square": np.square, "Round": np.rint, "Exp": np.exp, "Log": np.log, "Log2": np.log2,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x), "Tanh": np.tanh, "ArcTan": np.arctan,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Expm1": np.expm1, "Log1p": np.log1p,
}  # fmt: skip
_EXACT = ("Abs", "Ceil", "Floor", "Negative", "Sign", "Round")
for _kind in FLOATS:
    for _name, _function in _UNARY.items():
        _x = _numbers(_kind, _N, low=0.1 if "Log" in _name or "rt" in _name.lower() else -2.0)
        _y = _function(wide(_x)).astype(np.float32).astype(KINDS[_kind])
        # MLX's expm1 leaves out the last bits of ln 2.
        _close = max(4 * _STEP[_kind], 1e-5 if _name == "Expm1" else 0)
        _close = 0 if _name in _EXACT else _close
        _add(f"v_{_name}{_kind}{_kind}", 2, 128, {0: _x, 1: _out(_kind, _N), 2: i32(_N)}, {1: _y},
             close=_close)  # fmt: skip
for _kind in ("int8", "uint16", "int32", "int64"):
    for _name in ("Abs", "Negative", "Sign", "Square"):
        _x = _numbers(_kind, _N)
        _add(f"v_{_name}{_kind}{_kind}", 2, 128, {0: _x, 1: _out(_kind, _N), 2: i32(_N)},
             {1: _UNARY[_name](_x)})  # fmt: skip

_BINARY = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Maximum": np.maximum,
    "Minimum": np.minimum, "Equal": np.equal, "Less": np.less, "GreaterEqual": np.greater_equal,
}  # fmt: skip
for _kind in (*FLOATS, *INTEGERS):
    for _name, _function in _BINARY.items():
        _a, _b = _numbers(_kind, _N, 1), _numbers(_kind, _N, 2)
        _b[::3] = _a[::3]
        _c = _function(wide(_a), wide(_b))
        if _c.dtype != bool:
            _c = _c.astype(np.float32).astype(KINDS[_kind]) if _kind in FLOATS else _c
        _z = np.zeros(_N, bool) if _c.dtype == bool else _out(_kind, _N)
        _add(f"vv_{_name}{_kind}", 2, 128, {0: _a, 1: _b, 2: _z, 3: i32(_N)}, {2: _c})
for _kind in FLOATS:
    _a, _b = _numbers(_kind, _N, 1), _numbers(_kind, _N, 2, 0.5, 3)
    for _name, _function in (("Divide", np.divide), ("Power", None), ("ArcTan2", np.arctan2)):
        _base = _b if _name == "Power" else _a
        _function = _function or np.power
        _add(f"vv_{_name}{_kind}", 2, 128, {0: _base, 1: _b, 2: _out(_kind, _N), 3: i32(_N)},
             {2: _function(wide(_base), wide(_b))}, close=4 * _STEP[_kind])  # fmt: skip
    _add(f"sv_Multiply{_kind}", 2, 128, {0: _a[:1], 1: _b, 2: _out(_kind, _N), 3: i32(_N)},
         {2: (wide(_a[0]) * wide(_b)).astype(np.float32)})  # fmt: skip
for _kind in ("int32", "uint8"):
    _a, _b = _numbers(_kind, _N, 1), np.maximum(_numbers(_kind, _N, 2), 1).astype(KINDS[_kind])
    _add(f"vv_FloorDivide{_kind}", 2, 128, {0: _a, 1: _b, 2: _out(_kind, _N), 3: i32(_N)},
         {2: _a // _b})  # fmt: skip
    _add(f"vv_BitwiseXor{_kind}", 2, 128, {0: _a, 1: _b, 2: _out(_kind, _N), 3: i32(_N)},
         {2: _a ^ _b})  # fmt: skip
for _kind in ("float32", "int16"):
    _a, _b = _numbers(_kind, (16, 8), 1), _numbers(_kind, (8, 16), 2)
    _add(f"g2_Add{_kind}", (1, 4), (16, 2),
         {0: _a, 1: _b, 2: _out(_kind, (8, 16)), 3: i64(1, 8), 4: i64(16, 1)},
         {2: (wide(_a.T) + wide(_b)).astype(KINDS[_kind])})  # fmt: skip

for _from in ("float32", "bfloat16", "int8", "uint32", "int64", "bool_", "float16"):
    for _to in ("float32", "float16", "bfloat16", "int32", "uint8", "int64", "bool_"):
        _x = _numbers(_from, _N, 3)
        if _from in FLOATS and _to in INTEGERS:
            _x = np.abs(_x)
        _y = wide(_x)
        if _to in ("float16", "bfloat16"):
            _y = _y.astype(np.float32)
        _add(f"v_copy{_from}{_to}", 2, 128, {0: _x, 1: _out(_to, _N), 2: i32(_N)},
             {1: _y.astype(KINDS[_to])})  # fmt: skip
_x = _numbers("float32", 3 * _N)
_add("s_copyfloat32float32", 2, 128, {0: _x, 1: _out("float32", _N), 2: i32(_N)},
     {1: np.full(_N, _x[0])})  # fmt: skip
_add("g1_copyfloat32float32", 2, 128, {0: _x, 1: _out("float32", _N), 3: i64(3)}, {1: _x[::3]})
_add("arangeint32", 2, 128, {0: i32(-7), 1: i32(3), 2: _out("int32", _N)},
     {2: np.arange(_N) * 3 - 7})  # fmt: skip

# -- reductions

_REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def _reduced(function, x, axis):
    return function(wide(x), axis=axis)


for _kind in (*FLOATS, "int32"):
    for _name, _function in _REDUCTIONS.items():
        if _name == "prod" and _kind != "float32":
            continue
        _low, _high = (0.9, 1.1) if _name == "prod" else (-1.0, 1.0)
        _x = _numbers(_kind, (8, 300), 4, _low, _high)
        _y = _reduced(_function, _x, 1)
        _close = 0 if _kind == "int32" or _name in ("max", "min") else 40 * _STEP[_kind]
        _more = {"close": _close, "size": 10}
        _add(f"row_reduce_simple_{_name}{_kind}", (1, 2), 96,
             {0: _x, 1: _out(_kind, 8), 2: i64(300), 3: i64(8)}, {1: _y}, **_more)  # fmt: skip
        _add(f"all_reduce_{_name}{_kind}", (1, 8), 64,
             {0: _x, 1: _out(_kind, 8), 2: i64(2400), 3: i64(300)}, {1: _y}, **_more)  # fmt: skip
        _z = _numbers(_kind, (3, 8, 40), 5, _low, _high)
        _y = _reduced(_function, _z, (0, 2))
        _rows = {0: _z, 1: _out(_kind, 8), 2: i64(40), 3: i64(3), 4: i32(8), 5: i64(40), 6: i32(1),
                 7: i32(3), 8: i64(320), 9: i32(1)}  # fmt: skip
        _add(f"row_reduce_looped_1_reduce_{_name}{_kind}", (1, 8), 32, _rows, {1: _y}, **_more)
        _add(f"row_reduce_small_1_reduce_{_name}{_kind}", 1, 8, _rows, {1: _y}, **_more)
        _c = _numbers(_kind, (70, 44), 6, _low, _high)
        _y = _reduced(_function, _c, 0)
        _columns = {0: _c, 1: _out(_kind, 44), 2: i64(70), 3: i64(44), 4: i32(1), 5: i64(0),
                    6: i32(1), 7: i32(70), 8: i64(44), 9: i32(1), 10: i64(1),
                    11: i64(0)}  # fmt: skip
        _add(f"col_reduce_looped_1_32_32_reduce_{_name}{_kind}", (2, 1), 256, _columns, {1: _y},
             **_more)  # fmt: skip
        _add(f"col_reduce_small_1_reduce_{_name}{_kind}", (1, 1), (16, 4), _columns, {1: _y},
             **_more)  # fmt: skip
_b = _numbers("bool_", (8, 300), 7)
_b[3], _b[5] = True, False
for _name, _function in (("and", np.all), ("or", np.any)):
    _add(f"row_reduce_simple_{_name}bool_", (1, 2), 96,
         {0: _b, 1: _out("bool_", 8), 2: i64(300), 3: i64(8)}, {1: _function(_b, 1)})  # fmt: skip


# -- rows


def _softmax(x):
    y = np.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


for _kind in FLOATS:
    _x = _numbers(_kind, (5, 500), 8, -6, 6)
    _y = _softmax(wide(_x))
    for _way, _threads in (("block", 128), ("looped", 1024)):
        _add(f"{_way}_softmax_{_kind}", 5, _threads,
             {0: _x, 1: np.zeros_like(_x), 2: i32(500)}, {1: _y}, close=8 * _STEP[_kind],
             size=0.01)  # fmt: skip
        _add(f"{_way}_logsumexp_{_kind}", 5, _threads, {0: _x, 1: _out(_kind, 5), 2: i32(500)},
             {1: np.log(np.exp(wide(_x)).sum(1))}, close=8 * _STEP[_kind])  # fmt: skip
    # Of MLX's layer norm the last thread has to have an element: others write before their arrays.
    _x = _numbers(_kind, (5, 508), 8, -6, 6)
    _w, _b = _numbers(_kind, 508, 9), _numbers(_kind, 508, 10)
    _u = wide(_x)
    _normal = (_u - _u.mean(1, keepdims=True)) / np.sqrt(_u.var(1, keepdims=True) + 1e-5)
    _add(f"layer_norm{_kind}", 5, 64,
         {0: _x, 1: _w, 2: _b, 3: np.zeros_like(_x), 4: f32(1e-5), 5: i32(508), 6: i32(1),
          7: i32(1)},
         {3: _normal * wide(_w) + wide(_b)}, close=16 * _STEP[_kind])  # fmt: skip
    _root = _u / np.sqrt((_u**2).mean(1, keepdims=True) + 1e-5)
    _add(f"rms{_kind}", 5, 128,
         {0: _x, 1: _w, 2: np.zeros_like(_x), 3: f32(1e-5), 4: i32(508), 5: i32(1)},
         {2: _root * wide(_w)}, close=16 * _STEP[_kind])  # fmt: skip

_SCANS = {"sum": np.cumsum, "max": np.maximum.accumulate, "min": np.minimum.accumulate}
for _kind in ("float32", "int32"):
    for _name, _function in _SCANS.items():
        for _back in ("", "reverse_"):
            _x = _numbers(_kind, (3, 700), 11)
            _turned = _x[:, ::-1] if _back else _x
            _y = _function(wide(_turned), axis=1)
            _y = _y[:, ::-1] if _back else _y
            _add(f"contig_scan_{_back}inclusive_{_name}_{_kind}_{_kind}", (1, 3), 1024,
                 {0: _x, 1: np.zeros_like(_x), 2: i64(700)}, {1: _y},
                 close=0 if _kind == "int32" or _name != "sum" else 40 * _STEP[_kind],
                 size=30)  # fmt: skip
            _c = _numbers(_kind, (2, 75, 40), 12)
            _turned = _c[:, ::-1] if _back else _c
            _y = _function(wide(_turned), axis=1)
            _y = _y[:, ::-1] if _back else _y
            _add(f"strided_scan_{_back}inclusive_{_name}_{_kind}_{_kind}", (1, 4), 256,
                 {0: _c, 1: np.zeros_like(_c), 2: i64(75), 3: i64(40), 4: i64(2)}, {1: _y},
                 close=0 if _kind == "int32" or _name != "sum" else 40 * _STEP[_kind],
                 size=30)  # fmt: skip

for _kind in (*FLOATS, *INTEGERS):
    for _block in (32, 128):
        _n = 4 * _block - 9
        _x = _numbers(_kind, (3, _n), 13)
        _sizes = {2: i32(_n), 3: i32(1), 4: i32(1), 5: i32(_n), 6: i32(_n)}
        _add(f"c_block_sort_{_kind}_{_kind}_bn{_block}_tn4", (1, 3), _block,
             {0: _x, 1: np.zeros_like(_x), **_sizes}, {1: np.sort(wide(_x), 1)})  # fmt: skip
        _add(f"carg_block_sort_{_kind}_uint32_bn{_block}_tn4", (1, 3), _block,
             {0: _x, 1: _out("uint32", (3, _n)), **_sizes},
             {1: np.argsort(wide(_x), 1, kind="stable")})  # fmt: skip

# -- products

for _kind in FLOATS:
    for _bm, _bn, _sm, _sn, _tm, _tn in ((1, 8, 1, 32, 4, 4), (1, 1, 8, 4, 4, 4),
                                         (4, 1, 1, 32, 4, 4), (8, 1, 1, 32, 4, 4)):  # fmt: skip
        _name = f"gemv_{_kind}_bm{_bm}_bn{_bn}_sm{_sm}_sn{_sn}_tm{_tm}_tn{_tn}_nc0_axpby0"
        _m, _k = 37, 200
        _a, _v = _numbers(_kind, (_m, _k), 14), _numbers(_kind, _k, 15)
        _scalars = {7: f32(1), 8: f32(0), 9: i32(1), 10: i32(1), 11: i64(0), 12: i64(0), 13: i64(0),
                    14: i32(0)}  # fmt: skip
        _add(_name, -(-_m // (_bm * _sm * _tm)), (32, _bn, _bm),
             {0: _a, 1: _v, 2: _v, 3: _out(_kind, _m), 4: i32(_k), 5: i32(_m), 6: i32(_k),
              **_scalars},
             {3: wide(_a) @ wide(_v)}, close=4 * _STEP[_kind], size=20)  # fmt: skip
    for _bm, _bn, _sm, _sn, _tm, _tn in (
        (1, 2, 8, 4, 4, 4),
        (1, 4, 8, 4, 4, 4),
        (1, 16, 4, 8, 4, 4),
    ):
        _name = f"gemv_t_{_kind}_bm{_bm}_bn{_bn}_sm{_sm}_sn{_sn}_tm{_tm}_tn{_tn}_nc0_axpby0"
        _k, _n = 130, 77
        _a, _v = _numbers(_kind, (_k, _n), 16), _numbers(_kind, _k, 17)
        _add(_name, -(-_n // (_bn * _sn * _tn)), (32, _bn, _bm),
             {0: _a, 1: _v, 2: _v, 3: _out(_kind, _n), 4: i32(_k), 5: i32(_n), 6: i32(_n),
              **_scalars},
             {3: wide(_v) @ wide(_a)}, close=4 * _STEP[_kind], size=20)  # fmt: skip

_ALIGNED = {10: 0, 100: 0, 110: 0, 200: 0, 201: 0, 202: 0}
for _kind in FLOATS:
    for _turns in ("nn", "nt", "tn", "tt"):
        for _bm, _bn, _wm, _wn in ((32, 32, 2, 2), (64, 64, 2, 2), (64, 64, 1, 2)):
            _name = (f"steel_gemm_fused_{_turns}_{_kind}_{_kind}_bm{_bm}_bn{_bn}_bk16_wm{_wm}"
                     f"_wn{_wn}")  # fmt: skip
            _m, _n, _k = 70, 50, 37
            _a, _b = _numbers(_kind, (_m, _k), 18), _numbers(_kind, (_k, _n), 19)
            _left = np.ascontiguousarray(_a.T) if _turns[0] == "t" else _a
            _right = np.ascontiguousarray(_b.T) if _turns[1] == "t" else _b
            _tiles = -(-_n // _bn), -(-_m // _bm)
            _params = i32(_m, _n, _k, _left.shape[1], _right.shape[1], _n, *_tiles)
            _params += i64(0, 0, 0) + i32(0, _k // 16, 0, 0)
            _add(_name, _tiles, (32, _wn, _wm),
                 {0: _left, 1: _right, 3: _out(_kind, (_m, _n)), 4: _params},
                 {3: wide(_a) @ wide(_b)}, close=8 * _STEP[_kind], size=10,
                 constants=_ALIGNED)  # fmt: skip

# -- attention


def _attention(q, k, v, scale):
    return _softmax(scale * q @ k.swapaxes(-1, -2)) @ v


for _kind in FLOATS:
    for _d, _bk in ((64, 32), (80, 32), (128, 16)):
        _name = f"steel_attention_{_kind}_bq32_bk{_bk}_bd{_d}_bv{_d}_wm4_wn1_mask{_kind}"
        _h, _ql, _kl = 2, 45, 70
        _q, _k, _v = (_numbers(_kind, (1, _h, n, _d), 20 + n) for n in (_ql, _kl, _kl + 1))
        _v = np.ascontiguousarray(_v[:, :, :_kl])
        _blocks = -(-_ql // 32), -(-_kl // _bk)
        _params = i32(1, _h, _d, _ql, _kl, 1) + f32(0.25)
        _params += i32(*_blocks, _ql // 32, _kl // _bk, _ql % 32, _kl % _bk, _kl - _ql)
        for _x in (_q, _k, _v, _q):
            _params += i64(_x.shape[1] * _x.shape[2] * _d, _x.shape[2] * _d, _d)
        _add(_name, (_blocks[0], _h, 1), (32, 4, 1),
             {0: _q, 1: _k, 2: _v, 3: np.zeros_like(_q), 4: _params},
             {3: _attention(wide(_q), wide(_k), wide(_v), 0.25)}, close=16 * _STEP[_kind],
             constants={})  # fmt: skip
for _kind, _word in (("float32", "float"), ("float16", "float16_t"), ("bfloat16", "bfloat16_t")):
    for _d in (64, 128):
        _h, _n = 3, 50
        _q, _k, _v = (_numbers(_kind, (_h, n, _d), 30 + n) for n in (1, _n, _n + 1))
        _v = np.ascontiguousarray(_v[:, :_n])
        _strides = {6: i64(_n * _d), 7: i64(_d), 8: i64(_n * _d), 9: i64(_d)}
        _add(f"sdpa_vector_{_word}_{_d}_{_d}", (_h, 1), 1024,
             {0: _q, 1: _k, 2: _v, 3: np.zeros_like(_q), 4: i32(1), 5: i32(_n), **_strides,
              10: f32(0.3)},
             {3: _attention(wide(_q), wide(_k), wide(_v), 0.3)}, close=16 * _STEP[_kind],
             constants={})  # fmt: skip

# -- quantised weights: rows of groups, each with a scale and a bias


def _packed(codes, bits):
    """Codes as bytes, the first lowest."""
    flat = codes.reshape(-1, codes.shape[-1]).astype(np.uint64)
    found = np.zeros((flat.shape[0], flat.shape[1] * bits // 8), np.uint8)
    for row in range(flat.shape[0]):
        whole = 0
        for i, code in enumerate(flat[row].tolist()):
            whole |= code << (bits * i)
        found[row] = np.frombuffer(whole.to_bytes(found.shape[1], "little"), np.uint8)
    return found


for _kind, _word in (("float32", "float"), ("float16", "float16_t"), ("bfloat16", "bfloat16_t")):
    for _bits in (2, 3, 4, 6, 8):
        for _group in (32, 64):
            _rows, _k = 16, 512
            _random = np.random.default_rng(_bits)
            _codes = _random.integers(0, 1 << _bits, (_rows, _k))
            _w = _packed(_codes, _bits)
            _s = _numbers(_kind, (_rows, _k // _group), 40, 0.01, 0.1)
            _z = _numbers(_kind, (_rows, _k // _group), 41)
            _each = lambda x, group=_group: wide(x).repeat(group, 1)
            _weights = _codes * _each(_s) + _each(_z)
            _pack = {2: 4, 3: 8, 4: 2, 6: 4, 8: 1}[_bits]
            _threads = _rows * _k // _pack
            _suffix = f"{_word}_gs_{_group}_b_{_bits}"
            _add(f"affine_dequantize_{_suffix}", _threads // 64, 64,
                 {0: _w, 1: _s, 2: _z, 3: _out(_kind, (_rows, _k))}, {3: _weights},
                 close=4 * _STEP[_kind], size=2)  # fmt: skip
            _x = _numbers(_kind, _k, 42)
            _none = {n: i32(0) if n in (7, 8, 10, 11) else i64(0) for n in range(7, 15)}
            _add(f"affine_qmv_fast_{_suffix}_batch_0_pr_0_hgs_0_r_4", (1, _rows // 8), (32, 2),
                 {0: _w, 1: _s, 2: _z, 3: _x, 4: _out(_kind, _rows), 5: i32(_k), 6: i32(_rows),
                  **_none},
                 {4: _weights @ wide(_x)}, close=8 * _STEP[_kind], size=100)  # fmt: skip
            _m, _n, _kk = 20, 16, 512
            _x = _numbers(_kind, (_m, _kk), 43)
            _none = {n: i32(0) if n in (8, 9, 11, 12) else i64(0) for n in range(8, 16)}
            _add(f"affine_qmm_t_{_suffix}_alN_false_batch_0", (-(-_n // 32), -(-_m // 32)),
                 (32, 2, 2),
                 {0: _w, 1: _s, 2: _z, 3: _x, 4: _out(_kind, (_m, _n)), 5: i32(_kk), 6: i32(_n),
                  7: i32(_m), **_none},
                 {4: wide(_x) @ _weights.T}, close=8 * _STEP[_kind], size=200)  # fmt: skip
