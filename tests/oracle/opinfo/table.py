# ruff: noqa: A006 - the parameters have PyTorch's names
"""Which call of treadle each operator of PyTorch's OpInfo database is: one row for each name.

A row is a function with PyTorch's own parameters, on tensors of treadle. A name in `SAME` is a
method that takes PyTorch's arguments as they are. A row whose method is missing in treadle counts
as not yet there, so that rows may come before their methods. Names in neither are in `known.toml`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor

from .analysis import ANALYSIS
from .assembling import ASSEMBLING
from .factors import FACTORS
from .fourier import FOURIER
from .layers import LAYERS
from .numbers import NUMBERS
from .rows import axes, method

__all__ = ["ROWS"]

SAME = """
abs acos acosh allclose angle asin asinh atan atan2 atanh bincount bitwise_and bitwise_not
bitwise_or bitwise_xor broadcast_to ceil cholesky chunk clone complex conj contiguous copysign cos
cosh cross cumulative_trapezoid deg2rad diag diagonal diff digamma dot eq erf erfc erfinv exp exp2
expand_as expm1 fliplr flipud floor fmod frac gather ge gt heaviside histc hypot index_add
index_copy index_fill index_select isfinite isinf isnan isneginf isposinf isreal kron kthvalue ldexp
le lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logdet logical_and logical_not logical_or
logical_xor logit lt masked_fill masked_select matmul maximum median minimum movedim msort mul
nan_to_num narrow ne neg nextafter outer permute polar quantile rad2deg ravel reciprocal rot90 round
rsqrt select sgn sigmoid sign signbit sin sinc sinh sqrt square squeeze t take take_along_dim tan
tanh trace trapezoid trunc unbind unflatten unfold unsqueeze vdot view_as
xlogy
"""

# others' names for the same method
ALIASES = {
    "alias_copy": "clone",
    "bmm": "matmul",
    "clamp_max": "minimum",
    "clamp_min": "maximum",
    "conj_physical": "conj",
    "diagonal_copy": "diagonal",
    "linalg.cond": "cond",
    "linalg.cross": "cross",
    "linalg.det": "det",
    "linalg.inv": "inv",
    "linalg.matrix_norm": "matrix_norm",
    "linalg.matrix_power": "matrix_power",
    "linalg.qr": "qr",
    "linalg.slogdet": "slogdet",
    "linalg.solve": "solve",
    "linalg.solve_triangular": "solve_triangular",
    "linalg.svdvals": "svdvals",
    "linalg.vecdot": "vecdot",
    "linalg.vector_norm": "vector_norm",
    "mm": "matmul",
    "mv": "matmul",
    "narrow_copy": "narrow",
    "permute_copy": "permute",
    "pinverse": "pinv",
    "positive": "clone",
    "squeeze_copy": "squeeze",
    "t_copy": "t",
    "trapz": "trapezoid",
    "unbind_copy": "unbind",
    "unfold_copy": "unfold",
    "unsafe_chunk": "chunk",
    "unsqueeze_copy": "unsqueeze",
}


def extreme(name: str) -> Callable[..., Any]:
    """max and min: over all, over an axis with the places, or of two tensors."""

    def row(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return getattr(x, name + "imum")(dim)
        values = getattr(x, name)(dim, keepdim)
        return values if dim is None else (values, getattr(x, "arg" + name)(dim, keepdim))

    return row


def spread(name: str) -> Callable[..., Any]:
    """var, std and those with the mean: `unbiased` and `correction` say the same."""

    def row(x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *,
            correction: Any = None) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        free = (1 if unbiased else 0) if correction is None else correction
        return getattr(x, name)(axes(dim), keepdim, free)

    return row


def add(x: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return x + (other if alpha == 1 else other * alpha)


def sub(x: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return x - (other if alpha == 1 else other * alpha)


def split(x: Tensor, sizes: Any, dim: int = 0) -> Any:
    return x.split(sizes, dim)


def pad(x: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    flat = (*pad, *(0,) * (2 * x.ndim - len(pad)))  # the last axis first, all of them
    return x.pad(flat, mode=mode, value=0.0 if value is None else value)


def scatter(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: Any = None) -> Tensor:
    return x.scatter(dim, index, src, reduce=reduce)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Any, reduce: str, *,
                   include_self: bool = True) -> Tensor:  # fmt: skip
    return x.scatter_reduce(dim, index, src, reduce, include_self=include_self)


def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    return x.sort(dim, descending)


def linalg_norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
                dtype: Any = None) -> Tensor:  # fmt: skip
    """Of two axes a matrix's norm, if one is named; else that of a vector."""
    pair = x.ndim == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    if ord is not None and pair:
        return x.matrix_norm(ord, (0, 1) if dim is None else dim, keepdim, dtype)
    return x.vector_norm(2 if ord is None else ord, dim, keepdim, dtype)


def pinv(x: Tensor, other: Any = None, *, atol: Any = None, **options: Any) -> Tensor:
    """A variant is of a product, which has a low rank."""
    return (x if other is None else x @ other.mT).pinv(atol=atol or 0.0, **options)


def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False,
           return_counts: bool = False, dim: Any = None) -> Any:  # fmt: skip
    axis = {} if dim is None else {"dim": dim}
    return x.unique(sorted, return_inverse, return_counts, **axis)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None,
           device: Any = None) -> Tensor:  # fmt: skip
    return Tensor.arange(start, end, step, dtype=dtype)


def filled(name: str) -> Callable[..., Any]:
    """Constructors; PyTorch's settings of memory mean nothing here."""

    def row(x: Any, *rest: Any, dtype: Any = None, device: Any = None, layout: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
        return getattr(Tensor, name)(x, *rest, dtype=dtype)

    return row


def filled_like(name: str) -> Callable[..., Any]:
    """zeros_like and the like."""

    def row(x: Tensor, *value: Any, dtype: Any = None, **_: Any) -> Tensor:
        return getattr(x, name)(*value, dtype=dtype)

    return row


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    return condition.where(x, y)


def index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    result = x.clone()
    result[indices] = x[indices] + values if accumulate else values
    return result


ROWS: dict[str, Callable[..., Any]] = {
    **{name: method(name) for name in SAME.split()},
    **{name: method(own) for name, own in ALIASES.items()},
    **LAYERS,
    **FOURIER,
    **ASSEMBLING,
    **NUMBERS,
    **FACTORS,
    **ANALYSIS,
    # arithmetic
    "add": add,
    "sub": sub,
    "rsub": lambda x, other, *, alpha=1: sub(other, x, alpha=alpha),
    "div": lambda x, other, *, rounding_mode=None: x.div(other, rounding_mode=rounding_mode),
    "true_divide": lambda x, other: x / other,
    "floor_divide": lambda x, other: x // other,
    "remainder": lambda x, other: x % other,
    "pow": lambda x, exponent: x**exponent,
    "__radd__": lambda x, other: other + x,
    "__rmul__": lambda x, other: other * x,
    "__rsub__": lambda x, other: other - x,
    "__rdiv__": lambda x, other: other / x,
    "__rmod__": lambda x, other: other % x,
    "__rpow__": lambda x, other: other**x,
    "__rand__": lambda x, other: other & x,
    "__ror__": lambda x, other: other | x,
    "__rxor__": lambda x, other: other ^ x,
    "bitwise_left_shift": lambda x, other: x << other,
    "bitwise_right_shift": lambda x, other: x >> other,
    "__rmatmul__": lambda x, other: other @ x,
    "clamp": lambda x, min=None, max=None: x.clamp(min, max),
    "isclose": lambda x, other, *, rtol=1e-5, atol=1e-8, equal_nan=False: x.isclose(
        other, rtol, atol, equal_nan
    ),
    "where": lambda x, condition, other: where(condition, x, other),
    # dtypes
    "bfloat16": lambda x, **_: x.bfloat16(),
    "bool": lambda x, **_: x.bool(),
    "byte": lambda x, **_: x.cast("uint8"),
    "char": lambda x, **_: x.cast("int8"),
    "double": lambda x, **_: x.double(),
    "float": lambda x, **_: x.float(),
    "half": lambda x, **_: x.half(),
    "int": lambda x, **_: x.int(),
    "long": lambda x, **_: x.long(),
    "short": lambda x, **_: x.short(),
    "item": lambda x: x.item(),
    "cfloat": lambda x, **_: x.cfloat(),
    "cdouble": lambda x, **_: x.cdouble(),
    "real": lambda x: x.real,
    "mH": lambda x: x.mH,
    "H": lambda x: x.H,
    # products
    "einsum": lambda operands, formula: Tensor.einsum(formula, *operands),
    "tensordot": lambda x, other, dims=2: x.tensordot(other, dims),
    "linalg.cholesky": lambda x, *, upper=False: x.cholesky(upper),
    "linalg.diagonal": lambda x, *, offset=0, dim1=-2, dim2=-1: x.diagonal(offset, dim1, dim2),
    "linalg.matrix_rank": method("matrix_rank"),
    "linalg.pinv": pinv,
    "linalg.eigvalsh": lambda x, UPLO="L": x.eigvalsh(UPLO),
    "linalg.norm": linalg_norm,
    "norm": lambda x, p="fro", dim=None, keepdim=False, dtype=None: x.norm(p, dim, keepdim, dtype),
    # reductions and scans
    "sum": lambda x, dim=None, keepdim=False, *, dtype=None: x.sum(axes(dim), keepdim, dtype),
    "prod": lambda x, dim=None, keepdim=False, *, dtype=None: x.prod(axes(dim), keepdim, dtype),
    "mean": lambda x, dim=None, keepdim=False, *, dtype=None: (
        x if dtype is None else x.cast(dtype)
    ).mean(axes(dim), keepdim),
    "amax": lambda x, dim=(), keepdim=False: x.max(axes(dim), keepdim),
    "amin": lambda x, dim=(), keepdim=False: x.min(axes(dim), keepdim),
    "all": lambda x, dim=None, keepdim=False: x.all(axes(dim), keepdim),
    "any": lambda x, dim=None, keepdim=False: x.any(axes(dim), keepdim),
    "argmax": lambda x, dim=None, keepdim=False: x.argmax(dim, keepdim),
    "argmin": lambda x, dim=None, keepdim=False: x.argmin(dim, keepdim),
    "aminmax": lambda x, *, dim=None, keepdim=False: x.aminmax(dim, keepdim),
    "nansum": lambda x, dim=None, keepdim=False, *, dtype=None: (
        x if dtype is None else x.cast(dtype)
    ).nansum(axes(dim), keepdim),
    "nanmean": lambda x, dim=None, keepdim=False, *, dtype=None: (
        x if dtype is None else x.cast(dtype)
    ).nanmean(axes(dim), keepdim),
    "count_nonzero": lambda x, dim=None: x.count_nonzero(axes(dim)),
    "max": extreme("max"),
    "min": extreme("min"),
    "var": spread("var"),
    "std": spread("std"),
    "var_mean": spread("var_mean"),
    "std_mean": spread("std_mean"),
    "logsumexp": lambda x, dim, keepdim=False: x.logsumexp(axes(dim), keepdim),
    "cumsum": lambda x, dim, *, dtype=None: (x if dtype is None else x.cast(dtype)).cumsum(dim),
    "cumprod": lambda x, dim, *, dtype=None: (x if dtype is None else x.cast(dtype)).cumprod(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "cummin": lambda x, dim: x.cummin(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "searchsorted": lambda x, values, *, out_int32=False, right=False, side=None, sorter=None: (
        x.searchsorted(values, right, side, sorter)
    ),
    "bucketize": lambda x, boundaries, *, out_int32=False, right=False: x.bucketize(
        boundaries, right
    ),
    "unique": unique,
    "softmax": lambda x, dim, dtype=None: x.softmax(dim, dtype),
    "log_softmax": lambda x, dim, dtype=None: x.log_softmax(dim, dtype),
    "sort": sort,
    "argsort": lambda x, dim=-1, descending=False, stable=False: x.argsort(dim, descending),
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: x.topk(k, dim, largest, sorted),
    # shapes
    "reshape": lambda x, shape: x.reshape(shape),
    "reshape_as": lambda x, other: x.reshape(other.shape),
    "view": lambda x, shape: x.view(shape),
    "view_copy": lambda x, shape: x.view(shape),
    "expand": lambda x, shape: x.expand(shape),
    "expand_copy": lambda x, shape: x.expand(shape),
    "flatten": lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim),
    "transpose": lambda x, dim0, dim1: x.transpose(dim0, dim1),
    "transpose_copy": lambda x, dim0, dim1: x.transpose(dim0, dim1),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "flip": lambda x, dims: x.flip(dims),
    "roll": lambda x, shifts, dims=None: x.roll(shifts, axes(dims)),
    "repeat": lambda x, repeats: x.repeat(repeats),
    "tile": lambda x, dims: x.tile(dims),
    "repeat_interleave": method("repeat_interleave"),
    "constant_pad_nd": lambda x, pad_, value=0: pad(x, pad_, "constant", value),
    "nn.functional.pad": pad,
    "split": split,
    "unsafe_split": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "cat": lambda tensors, dim=0: tensors[0].cat(*tensors[1:], dim=dim),
    "stack": lambda tensors, dim=0: tensors[0].stack(*tensors[1:], dim=dim),
    "meshgrid": lambda x, *rest, indexing="ij": (
        x[0].meshgrid(*x[1:], indexing=indexing)
        if isinstance(x, list)
        else x.meshgrid(*rest, indexing=indexing)
    ),
    "triu": lambda x, diagonal=0: x.triu(diagonal),
    "tril": lambda x, diagonal=0: x.tril(diagonal),
    # places
    "__getitem__": lambda x, index: x[index],
    "index_put": index_put,
    "scatter": scatter,
    "scatter_add": lambda x, dim, index, src: x.scatter(dim, index, src, reduce="add"),
    "scatter_reduce": scatter_reduce,
    "nonzero": lambda x, as_tuple=False: x.nonzero(as_tuple),
    # creation
    "arange": arange,
    "eye": filled("eye"),
    "full": filled("full"),
    "linspace": filled("linspace"),
    "ones": filled("ones"),
    "zeros": filled("zeros"),
    "full_like": filled_like("full_like"),
    "ones_like": filled_like("ones_like"),
    "zeros_like": filled_like("zeros_like"),
}
