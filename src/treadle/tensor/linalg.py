"""Products: matmul, dot and einsum, as one multiplication and one sum that the compiler tiles.

(B, M, K) @ (K, N)  ->  (B, M, N)
Tensor.einsum("bik,bkj->bij", a, b)
"""

from __future__ import annotations

from typing import Any, Self

from ..dtype import DType, least_upper_dtype, sum_acc_dtype, to_dtype
from ..errors import ShapeError
from ..ir.shape import same_size
from .indexing import Indexing
from .operands import check_device
from .shapes import aligned, broadcast_shapes

__all__ = ["Linalg"]


class Linalg(Indexing):
    """Products on top of indexing."""

    __slots__ = ()

    def _product_sum(self, other: Self, axes: tuple[int, ...], dtype: Any, name: str) -> Self:
        """sum(self * other) over axes, accumulated wide. `dtype` None: the promoted one."""
        common = least_upper_dtype(self.dtype, other.dtype)
        out = common if dtype is None else to_dtype(dtype)
        wide = _accumulator(common, out)
        total = self.cast(wide)._binary_mul(other.cast(wide), name)
        return total.sum(axes, dtype=wide).cast(out)

    def _binary_mul(self, other: Self, name: str) -> Self:
        broadcast_shapes(name, self.shape, other.shape)
        return self.mul(other)

    def matmul(self, x: Any, reverse: Any = False, dtype: Any = None) -> Self:
        """The matrix product on the last two axes; the axes before them broadcast.

        A 1-D operand is a row on the left, a column on the right, and vanishes from the result.
        The result has the promoted dtype, or `dtype`; half types and integers accumulate wider.
        Raises ShapeError.
        """
        x = self._operand("matmul", x)
        return x.dot(self, dtype) if reverse else self.dot(x, dtype)

    def dot(self, w: Any, dtype: Any = None) -> Self:
        """The same as `matmul`."""
        w = self._operand("dot", w)
        _check_matmul(self, w)
        check_device("matmul", self, w)
        left = self if self.ndim > 1 else self.unsqueeze(0)
        right = w if w.ndim > 1 else w.unsqueeze(1)
        # (.., m, 1, k) * (.., 1, n, k), summed over k
        product = left.unsqueeze(-2)._product_sum(
            right.transpose(-1, -2).unsqueeze(-3), (-1,), dtype, "matmul"
        )
        if self.ndim == 1:
            product = product.squeeze(-2)
        return product.squeeze(-1) if w.ndim == 1 else product

    @classmethod
    def einsum(cls, formula: str, *operands: Any, dtype: Any = None) -> Any:
        """Sums of products in Einstein's notation, "..." included, as in NumPy.

        Operands are contracted from left to right. Raises ShapeError.
        """
        tensors = list(operands[0] if isinstance(operands[0], (list, tuple)) else operands)
        inputs, output = _parse(formula.replace(" ", ""), [t.ndim for t in tensors])
        sizes: dict[str, Any] = {}
        for i, (letters, tensor) in enumerate(zip(inputs, tensors, strict=True)):
            _learn_sizes(letters, tensor, sizes)
            tensors[i], inputs[i] = tensor._without_repeats(letters)
        result, letters = tensors[0], inputs[0]
        rest = list(zip(tensors[1:], inputs[1:], strict=True))
        for i, (tensor, more) in enumerate(rest):
            later = set(output).union(*(found for _, found in rest[i + 1 :]))
            result, letters = result._contract(letters, tensor, more, later, sizes)
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

    def _contract(
        self, letters: str, other: Self, more: str, later: set[str], sizes: dict[str, Any]
    ) -> tuple[Self, str]:
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
    """Halves in float32; integers in the result's own width, where wrapping loses nothing."""
    return sum_acc_dtype(out) if out.is_float else least_upper_dtype(common, out)


def _check_matmul(a: Linalg, b: Linalg) -> None:
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
    broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])


def _transposed_hint(a: Any, b: Any) -> str:
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
            raise ShapeError(f"[einsum] {letters!r} does not name the {rank} axes of operand {i}")
        inputs[i] = letters.replace("...", "".join(reversed(spare[:hidden])))
        most = max(most, hidden)
    dots = "".join(reversed(spare[:most]))
    if arrow:
        return inputs, right.replace("...", dots)
    letters = "".join(inputs)
    single = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return inputs, dots + "".join(single)


def _learn_sizes(letters: str, tensor: Linalg, sizes: dict[str, Any]) -> None:
    for letter, size in zip(letters, tensor.shape, strict=True):
        known = sizes.setdefault(letter, size)
        if same_size(known, 1):
            sizes[letter] = size
        elif not same_size(size, 1) and not same_size(known, size):
            raise ShapeError(
                f"[einsum] axis {letter!r} has size {known} in one operand and size {size} in "
                f"another, of shape {tensor.shape}: equal letters need equal sizes"
            )
