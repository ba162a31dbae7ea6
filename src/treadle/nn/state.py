"""Models to and from named tensors, and those to and from files.

state = get_state_dict(net)              # {"0.weight": ..., "0.bias": ...}
safe_save(state, "net.safetensors")
load_state_dict(net, safe_load("net.safetensors"))
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ShapeError, UserError
from ..helpers import tqdm
from ..io.safetensors import safe_load, safe_load_metadata, safe_save
from ..tensor import Tensor

__all__ = [
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
]


def get_state_dict(
    obj: Any, prefix: str = "", tensor_type: type[Any] = Tensor
) -> dict[str, Tensor]:
    """Every tensor that `obj` reaches through attributes, list positions and dict keys, by path.

    A tensor that is reached in two ways appears under both names.
    """
    return dict(_walk(obj, prefix, tensor_type, frozenset()))


def _walk(
    obj: Any, path: str, tensor_type: type[Any], above: frozenset[int]
) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, tensor_type):
        yield path.strip("."), obj
        return
    if id(obj) in above:  # an object that refers back to its owner
        return
    for name, child in _children(obj):
        yield from _walk(child, f"{path}.{name}" if path else name, tensor_type, above | {id(obj)})


def _children(obj: Any) -> list[tuple[str, Any]]:
    if hasattr(obj, "_asdict"):  # a namedtuple
        obj = obj._asdict()
    if isinstance(obj, dict):
        return [(str(key), value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(index), value) for index, value in enumerate(obj)]
    if isinstance(obj, (type, types.ModuleType, types.FunctionType, types.MethodType)):
        return []
    return list(getattr(obj, "__dict__", {}).items())


def get_parameters(obj: Any) -> list[Tensor]:
    """The tensors of `get_state_dict(obj)`, in its order."""
    return list(get_state_dict(obj).values())


def load_state_dict(
    model: Any,
    state_dict: dict[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Give every tensor of `model` the value of the same name in `state_dict`; returns them.

    The tensors keep their device and take the dtype of `state_dict`. `strict` allows neither
    missing nor unused names; `consume` removes what was used from `state_dict`, to free memory;
    `verbose` draws a progress bar on a terminal. Nothing is changed where an error is raised:
    UserError lists the names that do not match, ShapeError the shapes.
    """
    target = get_state_dict(model)
    if strict:
        _check_names(target, state_dict)
    used = [name for name in target if name in state_dict]
    _check_shapes(target, state_dict, used)
    for name in tqdm(used, "loading", disable=None if verbose else True):
        value = state_dict.pop(name) if consume else state_dict[name]
        target[name].replace(value.to(target[name].device))
        if realize:
            target[name].realize()
    return [target[name] for name in used]


def _check_names(target: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    missing = [name for name in target if name not in given]
    unused = [name for name in given if name not in target]
    parts = [
        f"{label}: {_some(names)}"
        for label, names in (("missing", missing), ("not in the model", unused))
        if names
    ]
    if parts:
        raise UserError(
            f"[load_state_dict] names do not match ({'; '.join(parts)}); "
            f"strict=False loads those that do"
        )


def _check_shapes(
    target: Mapping[str, Tensor], given: Mapping[str, Tensor], names: list[str]
) -> None:
    wrong = [
        f"{name}: model {target[name].shape}, given {given[name].shape}"
        for name in names
        if target[name].shape != given[name].shape
    ]
    if wrong:
        raise ShapeError(f"[load_state_dict] shapes do not match ({_some(wrong, '; ')})")


def _some(items: list[str], separator: str = ", ", limit: int = 8) -> str:
    more = f"{separator}and {len(items) - limit} more" if len(items) > limit else ""
    return separator.join(items[:limit]) + more
