"""Other spellings of parameters: what PyTorch and NumPy call an argument that is there.

    x.sum(dim=1)            means x.sum(axis=1)
    x.cat(y, axis=1)        means x.cat(y, dim=1)
    x.clamp(min=0, max=1)   means x.clamp(0, 1)

A row of the table holds for every public method, function and layer that has such a parameter and
none of the other name. Signatures and messages say the name of the left column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .errors import ArgumentError

__all__ = ["respelled", "spellings_of"]

_OTHERS: dict[str, tuple[str, ...]] = {
    "axis": ("dim", "dims", "axes"),
    "dim": ("axis",),
    "dims": ("axis", "axes", "dim"),
    "axes": ("dim", "dims", "axis"),
    "order": ("dims", "axes"),
    "keepdim": ("keepdims",),
    "min_": ("min", "a_min"),
    "max_": ("max", "a_max"),
    "sorted_": ("sorted",),
    "neg_slope": ("negative_slope",),
    "sizes": ("split_size", "split_size_or_sections"),
    "Y": ("target",),
    "vocab_size": ("num_embeddings",),
    "embed_size": ("embedding_dim",),
    "sz": ("num_features",),
}
_NO_NAMES: dict[str, str] = {}
_TAKES_ANY = 0x08  # CO_VARKEYWORDS: what is given by name may be meant as it is


def spellings_of(function: Callable[..., object]) -> dict[str, str]:
    """The other names of `function`'s parameters, each with its own name."""
    code = function.__code__
    if code.co_flags & _TAKES_ANY:
        return _NO_NAMES
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {
        other: name for name in own for other in _OTHERS.get(name, ()) if other not in own
    } or _NO_NAMES


def respelled(
    name: str, spellings: Mapping[str, str], given: Mapping[str, object]
) -> dict[str, object]:
    """`given` by its parameters' own names. Raises ArgumentError where one is given twice."""
    found: dict[str, object] = {}
    for key, value in given.items():
        own = spellings.get(key, key)
        if own in found or (own != key and own in given):
            raise ArgumentError(
                f"[{name}] {key} is another name of {own}, which is given as well; keep one"
            )
        found[own] = value
    return found
