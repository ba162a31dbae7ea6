"""Models to and from named tensors, and those to and from files.

state = get_state_dict(net)              # {"0.weight": ..., "0.bias": ...}
safe_save(state, "net.safetensors")
load_state_dict(net, safe_load("net.safetensors"))

The readers of other formats are here, too: `torch_load`, `gguf_load`, `npy_load`, `npz_load` and
`tar_extract`. None of them runs code that a file holds, and what a file claims is checked against
its size before it is believed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from ..errors import ShapeError, UserError
from ..explained import explained
from ..helpers import tqdm
from ..io import (
    TensorIO,
    gguf_load,
    npy_load,
    npz_load,
    safe_load,
    safe_load_metadata,
    safe_save,
    tar_extract,
    torch_load,
)
from ..tensor import Tensor
from ..tensor.shapes import aligned, differing

__all__ = [
    "TensorIO",
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load_state_dict",
    "npy_load",
    "npz_load",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
]


@explained
def get_state_dict(
    obj: object, prefix: str = "", tensor_type: type[Any] = Tensor
) -> dict[str, Tensor]:
    """Every tensor that `obj` reaches through attributes, list positions and dict keys, by path.

    The tensors themselves, in their shapes and dtypes. One that is reached in two ways appears
    under both names. Raises ArgumentError (of a tensor as `prefix` ShapeError) for an argument of
    another kind.
    """
    return dict(_walk(obj, prefix, tensor_type, frozenset()))


T = TypeVar("T")


def _walk(
    obj: object, path: str, tensor_type: type[T], above: frozenset[int]
) -> Iterator[tuple[str, T]]:
    if isinstance(obj, tensor_type):
        yield path.strip("."), obj
        return
    if id(obj) in above:  # an object that refers back to its owner
        return
    for name, child in _children(obj):
        yield from _walk(child, f"{path}.{name}" if path else name, tensor_type, above | {id(obj)})


def _children(obj: Any) -> list[tuple[str, object]]:
    if hasattr(obj, "_asdict"):  # a namedtuple
        obj = obj._asdict()
    if isinstance(obj, dict):
        return [(str(key), value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(index), value) for index, value in enumerate(obj)]
    if isinstance(obj, (type, types.ModuleType, types.FunctionType, types.MethodType)):
        return []
    return list(getattr(obj, "__dict__", {}).items())


@explained
def get_parameters(obj: object) -> list[Tensor]:
    """The tensors of `get_state_dict(obj)`, in its order, in their shapes and dtypes.

    Raises ArgumentError.
    """
    return list(get_state_dict(obj).values())


@explained
def load_state_dict(
    model: object,
    state_dict: dict[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Give every tensor of `model` the value of the same name in `state_dict`; returns them.

    The tensors keep their device and take the dtype of `state_dict`. `strict` allows neither
    missing nor unused names; `consume` removes what was used from `state_dict`, to free memory;
    `verbose` draws a progress bar on a terminal. Nothing is changed where an error is raised: it
    lists all names that are missing, not in the model, or of another shape, and is a ShapeError
    where a shape is among them, else a UserError. Raises ArgumentError for an argument of another
    kind.
    """
    if not isinstance(state_dict, Mapping):
        raise UserError(
            f"[load_state_dict] takes names with tensors, not a {type(state_dict).__name__}; "
            "get_state_dict and the readers of files give such"
        )
    target = get_state_dict(model)
    used = [name for name in target if name in state_dict]
    _check(target, state_dict, used, strict)
    for name in tqdm(used, "loading", disable=None if verbose else True):
        value = state_dict.pop(name) if consume else state_dict[name]
        target[name].replace(value.to(target[name].device))
        if realize:
            target[name].realize()
    return [target[name] for name in used]


def _check(
    target: Mapping[str, Tensor], given: Mapping[str, Tensor], used: list[str], strict: bool
) -> None:
    """Raises where names, if `strict`, or the shapes of `used` do not match."""
    pairs = [(name, target[name].shape, given[name].shape) for name in used]
    wrong = [
        f"\n{name}: model {own}, given {other}\n"
        f"{aligned([own, other], [differing(own, other)] * 2, right=False)}"
        for name, own, other in pairs
        if own != other
    ]
    missing = [f"{name} {tensor.shape}" for name, tensor in target.items() if name not in given]
    unused = [f"{name} {tensor.shape}" for name, tensor in given.items() if name not in target]
    parts = [
        f"{label}: {_some(found)}"
        for label, found in (("missing", missing), ("not in the model", unused))
        if found and strict
    ]
    if wrong:
        names = f", nor do names ({'; '.join(parts)})" if parts else ""
        raise ShapeError(
            f"[load_state_dict] shapes do not match{names}:{_some(wrong, between='')}\nbuild the "
            "model with these sizes, or leave these names out and give strict=False"
        )
    if parts:
        raise UserError(
            f"[load_state_dict] names do not match ({'; '.join(parts)}); "
            f"strict=False loads those that do"
        )


def _some(items: list[str], limit: int = 8, between: str = ", ") -> str:
    more = f", and {len(items) - limit} more" if len(items) > limit else ""
    return between.join(items[:limit]) + more
