"""A pickle as data: a machine for the instructions that plain values need, and no others.

    load(b"...", {"collections.OrderedDict": OrderedDict}, persistent)

Python's unpickler imports what a pickle names and calls it, so that a file can run any code. This
one imports nothing: a name is looked up in a table of ours, only `Call`s from that table are
called, and an instruction that it does not know ends the reading. Objects take no state of a
pickle's choosing. Values are never printed in messages: they may be deep, or print without end.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import UserError

__all__ = ["Call", "PickleError", "load", "plain_keys"]


class PickleError(UserError):
    """A pickle that is broken, or that asks for more than plain values."""


@dataclass(frozen=True)
class Call:
    """A function that a pickle may call; it must raise PickleError for arguments it cannot take."""

    function: Callable[..., object]


T = TypeVar("T")


class _Mark:
    pass


_MARK = _Mark()
_PUSHED = frozenset((
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
))  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], object]] = {
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_FROM_MARK: dict[str, Callable[[list[object]], object]] = {
    "TUPLE": tuple, "LIST": list, "FROZENSET": lambda items: frozenset(plain_keys(items)),
    "DICT": lambda items: _filled({}, items),
}  # fmt: skip
_KEYS = (str, bytes, int, float)
_NOTHING = frozenset(("PROTO", "FRAME"))


def load(
    data: bytes,
    names: Mapping[str, object],
    persistent: Callable[[object], object] | None = None,
) -> Any:
    """The value that a pickle describes.

    `names` maps "module.name" to what stands for it: a `Call`, or a value. `persistent` gives the
    value of a persistent id. Raises PickleError.
    """
    machine = _Machine(names, persistent)
    try:
        for instruction, argument, _ in pickletools.genops(data):
            machine.run(instruction.name, argument)
        return machine.result()
    except PickleError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise PickleError(f"the pickle is broken: {type(error).__name__}: {error}") from None


class _Machine:
    """A stack of values, and a memo of those that are used again."""

    def __init__(
        self, names: Mapping[str, object], persistent: Callable[[object], object] | None = None
    ) -> None:
        self._names, self._persistent = names, persistent
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def result(self) -> object:
        """The value at STOP, the one that is left."""
        (value,) = self._stack
        return self._plain(value)

    def run(self, name: str, argument: object) -> None:
        """One instruction of `pickletools`."""
        if name in _NOTHING or name == "STOP":
            return
        if name in _PUSHED:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self._stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            count = _TUPLES[name]
            items = tuple(self._pop() for _ in range(count))[::-1]
            self._stack.append(items)
        elif name in _FROM_MARK:
            self._stack.append(_FROM_MARK[name](self._pop_to_mark()))
        else:
            step = _STEPS.get(name)
            if step is None:
                raise PickleError(f"the pickle has the instruction {name}, which is not allowed")
            step(self, argument)

    def _pop(self) -> object:
        return self._plain(self._stack.pop())

    def _plain(self, value: object) -> object:
        if value is _MARK:
            raise PickleError("the pickle is broken: a mark where a value should be")
        return value

    def _pop_to_mark(self) -> list[object]:
        items: list[object] = []
        while (value := self._stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def _top(self, kind: type[T]) -> T:
        value = self._stack[-1]
        if not isinstance(value, kind):
            raise PickleError(f"the pickle fills a {type(value).__name__}, not a {kind.__name__}")
        return value

    def _mark(self, _: object) -> None:
        self._stack.append(_MARK)

    def _store(self, index: int | None) -> None:
        self._memo[len(self._memo) if index is None else index] = self._plain(self._stack[-1])

    def _fetch(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _append(self, _: object) -> None:
        value = self._pop()
        self._top(list).append(value)

    def _appends(self, _: object) -> None:
        items = self._pop_to_mark()
        self._top(list).extend(items)

    def _add_items(self, _: object) -> None:
        items = self._pop_to_mark()
        self._top(set).update(plain_keys(items))

    def _set_item(self, _: object) -> None:
        value, key = self._pop(), self._pop()
        _filled(self._top(dict), [key, value])

    def _set_items(self, _: object) -> None:
        items = self._pop_to_mark()
        _filled(self._top(dict), items)

    def _global(self, argument: str) -> None:
        self._stack.append(self._named(*argument.split(" ", 1)))

    def _stack_global(self, _: object) -> None:
        name, module = self._pop(), self._pop()
        self._stack.append(self._named(module, name))

    def _named(self, module: object, name: object) -> object:
        full = f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else ""
        if full not in self._names:
            raise PickleError(
                f"the pickle asks for {full:.200}, which is not on the list of what is read; "
                f"save a dictionary of tensors instead, such as model.state_dict()"
            )
        return self._names[full]

    def _reduce(self, _: object) -> None:
        arguments, call = self._pop(), self._pop()
        if not isinstance(call, Call) or not isinstance(arguments, tuple):
            raise PickleError(f"the pickle calls a {type(call).__name__}, which is not allowed")
        self._stack.append(call.function(*arguments))

    def _build(self, _: object) -> None:
        self._pop()
        self._top(dict)  # an OrderedDict's attributes, such as a state_dict's `_metadata`

    def _persistent_id(self, _: object) -> None:
        if self._persistent is None:
            raise PickleError("the pickle refers to something outside of it")
        self._stack.append(self._persistent(self._pop()))


_STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": _Machine._mark, "POP": lambda machine, _: machine._stack.pop(),
    "POP_MARK": lambda machine, _: machine._pop_to_mark(),
    "MEMOIZE": _Machine._store, "BINPUT": _Machine._store, "LONG_BINPUT": _Machine._store,
    "BINGET": _Machine._fetch, "LONG_BINGET": _Machine._fetch,
    "APPEND": _Machine._append, "APPENDS": _Machine._appends, "ADDITEMS": _Machine._add_items,
    "SETITEM": _Machine._set_item, "SETITEMS": _Machine._set_items,
    "GLOBAL": _Machine._global, "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._reduce, "BUILD": _Machine._build, "BINPERSID": _Machine._persistent_id,
}  # fmt: skip


def _filled(table: dict[object, object], items: list[object]) -> dict[object, object]:
    table.update(zip(plain_keys(items[::2]), items[1::2], strict=True))
    return table


def plain_keys(values: list[object]) -> list[object]:
    """`values`, if they are plain: the hash of tuples in tuples would exhaust the C stack.

    Raises PickleError for any other.
    """
    for value in values:
        parts = value if isinstance(value, tuple) else (value,)
        if not all(part is None or isinstance(part, _KEYS) for part in parts):
            raise PickleError(f"the pickle has a key of type {type(value).__name__}")
    return values
