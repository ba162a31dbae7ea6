"""Whether the shapes of a call fit: convolutions, attention, labels, indices.

Each check raises a ShapeError that shows the shapes below each other, marks the axes at fault, and
says what was expected and what may have been meant:

    [conv2d] input (1, 8, 8, 3) and weight (4, 3, 3, 3) do not fit with groups=1: the input has 8
    channels, the weight takes 3
        1  8  8  3
        4  3  3  3
           ^
    expected (N, C, *spatial) and (O, C / groups, *kernel); input.permute(0, 3, 1, 2) would fit
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ShapeError
from ..ir.shape import Shape, same_size, size_product
from .shapes import aligned, broadcast_shapes, differing

__all__ = [
    "check_attention", "check_conv", "check_index", "check_labels", "check_letters", "check_sides",
    "check_targets", "check_vectors", "check_width",
]  # fmt: skip


def check_conv(
    name: str, x: Shape, weight: Shape, bias: Shape | None, groups: int, transposed: bool = False
) -> None:
    """Raises ShapeError where an input, a weight and a bias are no convolution in `groups`."""
    order = "(C, O / groups, *kernel)" if transposed else "(O, C / groups, *kernel)"
    head = f"[{name}] input {x} and weight {weight} do not fit with groups={groups}: "
    tail = f"expected (N, C, *spatial) and {order}"
    if len(x) != len(weight) or len(x) < 3:
        hint = "; input.unsqueeze(0) would fit" if len(x) + 1 == len(weight) > 3 else ""
        table = aligned([x, weight], [(), ()])
        raise ShapeError(f"{head}they have {len(x)} and {len(weight)} axes\n{table}\n{tail}{hint}")
    if groups < 1:
        raise ShapeError(f"{head}groups is at least 1")
    takes = weight[0] if transposed else weight[1] * groups
    if not same_size(x[1], takes):
        table = aligned([x, weight], [{1}, {0 if transposed else 1}])
        raise ShapeError(
            f"{head}the input has {x[1]} channels, the weight takes {takes}\n{table}\n"
            f"{tail}{_other_channels(x, weight, takes, transposed)}"
        )
    if weight[0] % groups:
        table = aligned([x, weight], [(), {0}])
        raise ShapeError(f"{head}{weight[0]} channels do not divide by it\n{table}\n{tail}")
    out = weight[1] * groups if transposed else weight[0]
    if bias is not None and not same_size(size_product(bias), out):
        raise ShapeError(
            f"[{name}] bias {bias} does not fit the {out} channels that weight {weight} gives: "
            f"expected {(out,)}"
        )


def _other_channels(x: Shape, weight: Shape, takes: int, transposed: bool) -> str:
    """What may have been meant: channels in the last axis, or other groups."""
    if same_size(x[-1], takes):
        return f"; input.permute{(0, len(x) - 1, *range(1, len(x) - 1))} would fit"
    if transposed or not isinstance(x[1], int) or not weight[1] or x[1] % weight[1]:
        return ""
    groups = x[1] // weight[1]
    return "" if not groups or weight[0] % groups else f"; groups={groups} would fit"


def check_width(name: str, x: Shape, width: int, out: int) -> None:
    """Raises ShapeError where the last axis of `x` is not `width`, which a layer takes to `out`."""
    if not x or not same_size(x[-1], width):
        found = f"{x[-1]} features in its last axis" if x else "no axis"
        marks: set[int] = {len(x) - 1} if x else set()
        raise ShapeError(
            f"[{name}] input {x} has {found}, the layer takes {width}\n{aligned([x], [marks])}\n"
            f"expected (..., {width}), which gives (..., {out})"
        )


def check_attention(name: str, query: Shape, key: Shape, value: Shape, grouped: bool) -> None:
    """Raises ShapeError where (.., L, E), (.., S, E) and (.., S, Ev) do not fit.

    `grouped`: the heads of key and value, in axis -3, divide those of the query.
    """
    shapes = [query, key, value]
    head = f"[{name}] query {query}, key {key} and value {value} do not fit: "
    least = 3 if grouped else 2
    tail = "expected (..., L, E), (..., S, E) and (..., S, Ev)"
    if min(map(len, shapes)) < least:
        table = aligned(shapes, [(), (), ()])
        raise ShapeError(f"{head}each needs {least} axes or more\n{table}\n{tail}")
    problem, marks = "", []
    if not same_size(query[-1], key[-1]):
        problem, marks = "query and key have other widths", [-1, -1, None]
    elif not same_size(key[-2], value[-2]):
        problem, marks = "key and value have other lengths", [None, -2, -2]
    elif grouped and (not same_size(key[-3], value[-3]) or not key[-3] or query[-3] % key[-3]):
        problem, marks = "the heads of key and value must divide those of query", [-3, -3, -3]
    if problem:
        wrong = [() if m is None else {len(s) + m} for s, m in zip(shapes, marks, strict=True)]
        raise ShapeError(f"{head}{problem}\n{aligned(shapes, wrong)}\n{tail}")
    broadcast_shapes(name, *shapes, apart=least)


def check_labels(name: str, logits: Shape, labels: Shape, axis: int) -> None:
    """Raises ShapeError where integer `labels` are not `logits` without the classes in `axis`."""
    wanted = logits[:axis] + logits[axis + 1 :]
    fits = len(labels) == len(wanted) and all(map(same_size, labels, wanted))
    if not fits:
        table = aligned([logits, labels], [{axis}, ()], right=False)
        raise ShapeError(
            f"[{name}] labels of shape {labels} do not fit logits of {logits}: expected {wanted}, "
            f"which is without the classes in axis {axis}\n{table}"
        )


def check_targets(name: str, x: Shape, targets: Shape) -> None:
    """Raises ShapeError where there is not one target for each element of `x`."""
    wrong = differing(x, targets)
    if len(x) != len(targets) or wrong:
        grows = all(
            same_size(n, 1) or same_size(n, x[axis]) for axis, n in enumerate(targets[: len(x)])
        )
        hint = f"; .expand{x} repeats them" if grows and len(x) == len(targets) else ""
        raise ShapeError(
            f"[{name}] targets of shape {targets} do not fit predictions of {x}\n"
            f"{aligned([x, targets], [wrong, wrong], right=False)}\n"
            f"expected {x}, one for each{hint}"
        )


def check_index(name: str, shape: Shape, index: Shape, axis: int) -> None:
    """Raises ShapeError where `index` has other axes than `shape`, or longer ones beside `axis`."""
    same = len(index) == len(shape)
    longer = {
        i
        for i, (n, m) in enumerate(zip(index, shape, strict=False))
        if i != axis and isinstance(n, int) and isinstance(m, int) and n > m
    }
    if not same or longer:
        table = aligned([shape, index], [longer if same else ()] * 2, right=False)
        raise ShapeError(
            f"[{name}] the index has shape {index}, the tensor {shape}: it needs as many axes, "
            f"none longer apart from axis {axis}\n{table}"
        )


def check_sides(name: str, a: Shape, b: Shape, what: str) -> None:
    """Raises ShapeError where a right side `b` has not as many rows, ... as matrix `a` has.

    `what`: "rows" of a matrix, its "columns" (a stands to the right), or "elements" of a vector.
    """
    side, shape = {
        "rows": (-2, "(..., m, k) for a matrix (..., m, n)"),
        "columns": (-1, "(..., k, n) for a matrix (..., n, n)"),
        "elements": (-1, "(m,) for a matrix (..., m, n)"),
    }[what]
    size = a[-1] if what == "columns" else a[-2]
    found = b[side] if len(b) >= -side else 0
    if not same_size(found, size):
        marks: set[int] = {len(b) + side} if found else set()
        raise ShapeError(
            f"[{name}] matrix {a} and right side {b} do not fit: expected {size} {what}, got "
            f"{found}\n{aligned([a, b], [(), marks])}\nexpected a right side {shape}"
        )


def check_letters(
    formula: str, inputs: Sequence[str], output: str, shapes: Sequence[Shape]
) -> None:
    """Raises ShapeError where einsum's equal letters have other sizes, or a result other letters.

    Sizes of 1 broadcast.
    """
    first: dict[str, tuple[int, int]] = {}
    for operand, (letters, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for axis, letter in enumerate(letters):
            before, place = first.setdefault(letter, (operand, axis))
            known, size = shapes[before][place], shape[axis]
            if same_size(known, 1):
                first[letter] = operand, axis
            elif not same_size(size, 1) and not same_size(known, size):
                table = aligned([shapes[before], shape], [{place}, {axis}], right=False)
                raise ShapeError(
                    f"[einsum] {formula!r}: axis {letter!r} has size {known} in operand {before} "
                    f"and size {size} in operand {operand}\n{table}\n"
                    "equal letters need equal sizes, or 1"
                )
    wrong = [c for c in output if c not in first or output.count(c) > 1]
    if wrong:
        raise ShapeError(
            f"[einsum] {formula!r}: the result names {wrong[0]!r}, which must stand in an operand, "
            f"and once in the result; operands have the axes {', '.join(first)}"
        )


def check_vectors(name: str, x: Shape, axes: Sequence[int], vectors: Mapping[str, Shape]) -> None:
    """Raises ShapeError where one of `vectors` has not an element for each place of `axes`."""
    size = size_product(x[axis] for axis in axes)
    for label, shape in vectors.items():
        if not same_size(size_product(shape), size):
            table = aligned([x, shape], [set(axes), ()], right=False)
            raise ShapeError(
                f"[{name}] {label} {shape} does not fit input {x}: expected {size} elements, one "
                f"for each place of axis {', '.join(map(str, axes))}\n{table}"
            )
