"""Products: matmul, dot, einsum and their kin, as one multiplication and one sum to be tiled.

(B, M, K) @ (K, N)  ->  (B, M, N)
Tensor.einsum("bik,bkj->bij", a, b)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self, TypeAlias, cast

from ...dtype import DType, promoted, sum_acc_dtype, to_dtype
from ...errors import ShapeError
from ...explained import explained
from ...ir.op import Op
from ...ir.shape import Shape, same_size, size_product
from ...kinds import AXES
from ..checks import check_letters
from ..operands import Operand, check_device, is_scalar, scalar_node, weak_dtype
from ..shapes import aligned, broadcast_shapes, move_axes, reshape, resolve_axis
from ..types import DTypeLike, Extent
from .reduce import Reduce

__all__ = ["Products"]


# So many axes, or those of one tensor and those of the other.
Summed: TypeAlias = Annotated[int | tuple[Sequence[int], Sequence[int]], AXES]


class Products(Reduce):
    """Products of elements, summed."""

    __slots__ = ()

    def _product_sum(
        self, other: Self, axes: tuple[int, ...], dtype: DTypeLike | None, name: str
    ) -> Self:
        """sum(self * other) over axes, accumulated wide. `dtype` None: the promoted one."""
        common = promoted(self.dtype, other.dtype)
        out = common if dtype is None else to_dtype(dtype)
        wide = _accumulator(common, out)
        products = self._as(wide)._binary(Op.MUL, name, other._as(wide))
        return products._reduce(Op.ADD, name, axes, False)._as(out)

    def matmul(self, x: Operand, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The matrix product on the last two axes, (.., m, k) by (.., k, n) to (.., m, n).

        The axes before them broadcast. A 1-D operand is a row on the left, a column on the right,
        and vanishes from the result. Dtypes promote; half types and integers accumulate wider.
        `dtype` is that of the result instead. Raises ShapeError.
        """
        x = self._operand("matmul", x)
        return x.dot(self, dtype) if reverse and not is_scalar(x) else self.dot(x, dtype)

    def dot(self, w: Operand, dtype: DTypeLike | None = None) -> Self:
        """The matrix product (.., m, k) by (.., k, n) to (.., m, n), as `matmul`; dtypes promote.

        `dtype` is that of the result. Raises ShapeError.
        """
        w = self._operand("dot", w)
        if is_scalar(w):
            raise ShapeError(
                f"[matmul] of shape {self.shape} and the number {w}; use * for scalars"
            )
        _check_matmul(self, w)
        check_device("matmul", self, w)
        left = self if self.ndim > 1 else self.unsqueeze(0)
        right = w if w.ndim > 1 else w.unsqueeze(1)
        # (.., m, 1, k) * (.., 1, n, k), summed over k
        rows = reshape(left.node, (*left.shape[:-1], 1, left.shape[-1]))
        columns = move_axes(right.node, (*range(right.ndim - 2), right.ndim - 1, right.ndim - 2))
        columns = reshape(columns, (*columns.shape[:-2], 1, *columns.shape[-2:]))
        product = left._result(rows)._product_sum(right._result(columns), (-1,), dtype, "matmul")
        if self.ndim == 1:
            product = product.squeeze(-2)
        return product.squeeze(-1) if w.ndim == 1 else product

    def outer(self, b: Operand) -> Self:
        """self[i] * b[j] of two vectors, (m, n); dtypes promote. Raises ShapeError."""
        b = self._operand("outer", b)
        if is_scalar(b) or self.ndim != 1 or b.ndim != 1:
            shape = () if is_scalar(b) else b.shape
            raise ShapeError(f"[outer] takes two vectors, not shapes {self.shape} and {shape}")
        return self.unsqueeze(1).mul(b.unsqueeze(0))

    def vdot(self, other: Operand) -> Self:
        """The sum of products of two vectors, self conjugated: a scalar; dtypes promote.

        Raises ShapeError.
        """
        other = self._operand("vdot", other)
        shape: Shape = () if is_scalar(other) else other.shape
        vectors = self.ndim == len(shape) == 1
        if not vectors or not same_size(self.shape[0], shape[0]):
            raise ShapeError(
                f"[vdot] takes two vectors of one length, not shapes {self.shape} and {shape}"
            )
        return self.vecdot(other)

    def vecdot(self, b: Operand, dim: int = -1) -> Self:
        """Sums of products along one axis, which vanishes, with self conjugated; the other axes
        broadcast.

        Dtypes promote. Raises ShapeError, IndexOutOfRange.
        """
        a, b = self.conj()._broadcast_with("vecdot", b)
        axis = resolve_axis("vecdot", dim, a.ndim)
        return a._product_sum(b, (axis,), None, "vecdot")

    def cross(self, b: Operand, dim: int = -1) -> Self:
        """The cross product along one axis, of size 3; the other axes broadcast, dtypes promote.

        Raises ShapeError, IndexOutOfRange, DTypeError for bools.
        """
        a, b = self._broadcast_with("cross", b)
        axis = resolve_axis("cross", dim, a.ndim)
        if not a.ndim or not same_size(a.shape[axis], 3):
            raise ShapeError(f"[cross] axis {dim} of shape {a.shape} has not the size 3")
        # a[1] b[2] - a[2] b[1], and so on round
        left = a.roll(-1, axis).mul(b.roll(-2, axis))
        return left.sub(a.roll(-2, axis).mul(b.roll(-1, axis)))

    @explained
    def tensordot(self, b: Operand, dims: Summed = 2) -> Self:
        """Sums of products over pairs of axes: (axes of self, axes of b); the others stay, in
        order.

        A number stands for that many axes, the last ones of self and the first ones of b. Dtypes
        promote. Raises ShapeError, IndexOutOfRange.
        """
        b = self._tensor_operand("tensordot", b)
        if isinstance(dims, int):
            if not 0 <= dims <= min(self.ndim, b.ndim):
                raise ShapeError(
                    f"[tensordot] shapes {self.shape} and {b.shape} have not {dims} axes to sum"
                )
            dims = (range(self.ndim - dims, self.ndim), range(dims))
        mine = [resolve_axis("tensordot", axis, self.ndim) for axis in dims[0]]
        others = [resolve_axis("tensordot", axis, b.ndim) for axis in dims[1]]
        pairs = [(self.shape[i], b.shape[j]) for i, j in zip(mine, others, strict=False)]
        unequal = any(not same_size(n, m) for n, m in pairs) or len(mine) != len(others)
        if unequal or len({*mine}) < len(mine) or len({*others}) < len(others):
            table = aligned([self.shape, b.shape], [{*mine}, {*others}], right=False)
            raise ShapeError(
                f"[tensordot] axes {tuple(mine)} of shape {self.shape} do not pair with axes "
                f"{tuple(others)} of shape {b.shape}\n{table}\n"
                "expected as many on both sides, each once, of equal sizes"
            )
        rest = [axis for axis in range(self.ndim) if axis not in mine]
        columns = [axis for axis in range(b.ndim) if axis not in others]
        shape = (*(self.shape[i] for i in rest), *(b.shape[i] for i in columns))
        inner = size_product(self.shape[i] for i in mine)
        left = self.permute((*rest, *mine)).reshape((size_product(shape[: len(rest)]), inner))
        right = b.permute((*others, *columns)).reshape((inner, size_product(shape[len(rest) :])))
        return left.dot(right).reshape(shape)

    def kron(self, b: Operand) -> Self:
        """The Kronecker product: each element of self times all of `b`, as blocks.

        Sizes multiply, axis by axis from the last; dtypes promote.
        """
        b = self._tensor_operand("kron", b)
        rank = max(self.ndim, b.ndim)
        outer = (1,) * (rank - self.ndim) + self.shape
        inner = (1,) * (rank - b.ndim) + b.shape
        left = self.reshape([size for n in outer for size in (n, 1)])
        right = b.reshape([size for n in inner for size in (1, n)])
        return left.mul(right).reshape([n * m for n, m in zip(outer, inner, strict=True)])

    def trace(self) -> Self:
        """The sum of the diagonal of the last two axes, which vanish, in the dtypes of `sum`.

        Integers give at least int32 or uint32. Raises ShapeError.
        """
        if self.ndim < 2:
            raise ShapeError(f"[trace] needs at least two axes, shape {self.shape} has less")
        order = (self.ndim - 2, self.ndim - 1, *range(self.ndim - 2))
        return self.permute(order).diagonal().sum(-1)

    def _tensor_operand(self, name: str, b: Operand) -> Self:
        b = self._operand(name, b)
        if not is_scalar(b):
            return b
        return type(self)._of(scalar_node(name, b, weak_dtype(b, self.dtype)), self.device)

    def _broadcast_with(self, name: str, b: Operand) -> tuple[Self, Self]:
        b = self._tensor_operand(name, b)
        shape = broadcast_shapes(name, self.shape, b.shape)
        return self.expand(shape), b.expand(shape)

    @classmethod
    @explained
    def einsum(
        cls, formula: str, *operands: Self | Sequence[Self], dtype: DTypeLike | None = None
    ) -> Self:
        """Sums of products of elements in Einstein's notation, "..." included, as in NumPy.

        Axes that the result does not name vanish. Dtypes promote. Operands are contracted from left
        to right; small integers and halves add up wider, and give their own dtype, or `dtype`.
        Raises ShapeError.
        """
        listed = operands and isinstance(operands[0], (list, tuple))
        tensors = list(cast("Sequence[Self]", operands[0] if listed else operands))
        inputs, output = _parse(formula.replace(" ", ""), [t.ndim for t in tensors])
        check_letters(formula, inputs, output, [t.shape for t in tensors])
        for i, (letters, tensor) in enumerate(zip(inputs, tensors, strict=True)):
            tensors[i], inputs[i] = tensor._without_repeats(letters)
        result, letters = tensors[0], inputs[0]
        rest = list(zip(tensors[1:], inputs[1:], strict=True))
        for i, (tensor, more) in enumerate(rest):
            later = set(output).union(*(found for _, found in rest[i + 1 :]))
            result, letters = result._contract(letters, tensor, more, later)
        summed = [axis for axis, letter in enumerate(letters) if letter not in output]
        kept = [letter for letter in letters if letter in output]
        if summed:
            total = result.sum(tuple(summed), dtype=sum_acc_dtype(result.dtype))
            result = total.cast(result.dtype)
        result = result.permute([kept.index(letter) for letter in output]) if output else result
        return result if dtype is None else result.cast(dtype)

    def _without_repeats(self, letters: str) -> tuple[Self, str]:
        """A letter that stands twice takes the diagonal of its two axes."""
        result = self
        for letter in dict.fromkeys(letters):
            while letters.count(letter) > 1:
                first = letters.index(letter)
                second = letters.index(letter, first + 1)
                others = [i for i in range(len(letters)) if i not in (first, second)]
                result = result.permute((first, second, *others)).diagonal()
                letters = "".join(letters[i] for i in others) + letter
        return result, letters

    def _contract(self, letters: str, other: Self, more: str, later: set[str]) -> tuple[Self, str]:
        every = "".join(dict.fromkeys(letters + more))
        kept = "".join(c for c in every if c in later)
        order = kept + "".join(c for c in every if c not in later)
        a, b = self._aligned(letters, order), other._aligned(more, order)
        axes = tuple(range(len(kept), len(order)))
        if not axes:
            return a.mul(b), kept
        return a._product_sum(b, axes, None, "einsum"), kept

    def _aligned(self, letters: str, order: str) -> Self:
        """Axes in the order of `order`, of size 1 where this tensor has none."""
        present = [c for c in order if c in letters]
        moved = self.permute([letters.index(c) for c in present]) if present else self
        sizes = iter(moved.shape)
        return moved.reshape([next(sizes) if c in letters else 1 for c in order])


def _accumulator(common: DType, out: DType) -> DType:
    """Halves in float32; integers in the result's own width, where wrapping loses nothing, or in
    their own if that is larger.
    """
    if out.is_float:
        return sum_acc_dtype(out)
    if not common.is_int:
        return promoted(common, out)
    return common if out.itemsize < common.itemsize else out


def _check_matmul(a: Products, b: Products) -> None:
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"[matmul] needs at least one axis on each side, got shapes {a.shape} and {b.shape}; "
            "use * for scalars"
        )
    inner = b.shape[-2] if b.ndim > 1 else b.shape[-1]
    if not same_size(a.shape[-1], inner):
        table = aligned([a.shape, b.shape], [{a.ndim - 1}, {max(b.ndim - 2, 0)}])
        raise ShapeError(
            f"[matmul] shapes {a.shape} and {b.shape} do not fit: {a.shape[-1]} columns on the "
            f"left, {inner} rows on the right\n{table}\n"
            f"expected (..., m, k) @ (..., k, n){_transposed_hint(a.shape, b.shape)}"
        )
    broadcast_shapes("matmul", a.shape, b.shape, apart=2)


def _transposed_hint(a: Sequence[Extent], b: Sequence[Extent]) -> str:
    if len(b) > 1 and same_size(a[-1], b[-1]):
        return "; a @ b.mT would fit"
    if len(a) > 1 and same_size(a[-2], b[-2] if len(b) > 1 else b[-1]):
        return "; a.mT @ b would fit"
    return ""


def _parse(formula: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the result; "..." becomes upper-case letters of its own."""
    left, arrow, right = formula.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ShapeError(f"[einsum] {formula!r} names {len(inputs)} operands, got {len(ranks)}")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in formula]
    most = 0
    for i, (letters, rank) in enumerate(zip(inputs, ranks, strict=True)):
        hidden = rank - len(letters.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in letters):
            raise ShapeError(
                f"[einsum] {formula!r}: {letters!r} does not name the {rank} axes of operand {i}; "
                "each takes a letter, or ... stands for several"
            )
        inputs[i] = letters.replace("...", "".join(reversed(spare[:hidden])))
        most = max(most, hidden)
    dots = "".join(reversed(spare[:most]))
    if arrow:
        return inputs, right.replace("...", dots)
    letters = "".join(inputs)
    single = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return inputs, dots + "".join(single)
