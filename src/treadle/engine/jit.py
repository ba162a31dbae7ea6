"""TinyJit: a function of tensors is captured once and replayed by one native call.

    @TinyJit
    def step(x): return (x @ w).relu().realize()

    step(a)   # runs plainly
    step(b)   # runs and is captured
    step(c)   # replays: no Python per kernel

Replays read and write the same memory as the captured call, so that parameters, moments and random
counters go on from call to call; tensors returned get fresh memory each time. What cannot be
replayed faithfully raises JitError: other shapes, other plain arguments, values read in the middle,
an input that is assigned to.

A size that an argument binds, `Variable("n", 0, 99).bind(7)`, may be bound to another value in each
call: the function is captured with the variable itself, for all of its values.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..config import settings
from ..errors import JitError
from ..ir.node import Node
from ..ir.symbolic import bind
from . import memory as memory_table
from .arguments import (
    Found,
    Glance,
    at_a_glance,
    check_same,
    described,
    exchanged,
    is_traced,
    layout_of,
    memories_of,
    refreshed,
    signature_of,
    stand_in,
    with_sizes,
)
from .capture import (
    Capture,
    let_go_of_memory,
    made_before,
    prepare,
    state_of,
    step_state,
    watched_by,
)
from .changes import changes
from .counters import count
from .given import given
from .known import is_backed, resolve
from .lasting import expect_replays
from .memory import Memory, adopt, moment, new_memory
from .run import on_compute, on_interpret, realize
from .steps import HostCall, Step, Transfer, listeners
from .straight import Settled, straight_of
from .variables import bind_holders, renew, sizes_with

__all__ = ["TinyJit", "jit"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


_capturing = threading.local()


def _refuse_reading() -> None:
    if getattr(_capturing, "active", None) is not None:
        raise JitError(
            "[jit] a value was read on the host while capturing (.item(), .numpy(), .tolist(), or "
            "a condition on a tensor); replays could not see it change. Return the tensor and read "
            "it outside"
        )


def _listen(step: Step) -> None:
    capture = getattr(_capturing, "active", None)
    if capture is not None:
        capture.steps.append(step)


def _listen_to_interpreter() -> None:
    capture = getattr(_capturing, "active", None)
    if capture is not None:
        capture.interpreted = True


def _compute_what_was_before(nodes: Sequence[Node]) -> None:
    capture = getattr(_capturing, "active", None)
    if capture is None or not (pending := made_before(capture, nodes)):
        return
    _capturing.active = None
    try:
        realize(pending)
    finally:
        _capturing.active = capture


memory_table.on_read.append(_refuse_reading)
on_compute.append(_compute_what_was_before)
on_interpret.append(_listen_to_interpreter)
listeners.append(_listen)


class TinyJit(Generic[P, R]):
    """Capture `function` at its second call, replay it from the third on.

    Tensors may be arguments, keyword arguments, or inside lists, tuples and dicts of them, and so
    may variables with values, `Variable("n", 0, 99).bind(7)`; all other arguments must be the same
    in each call. Arguments that require gradients get those that
    `backward` finds in the function. Raises JitError where a replay would differ.
    What layers do while training (`Tensor.training`) and otherwise are captures of their own. A
    copy, or what is loaded from a pickle, has the function and has captured nothing.
    Inside of a transform (grad, vmap, ...) it is the function itself.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.reset()

    def reset(self) -> None:
        """Forget what was captured: the next call runs plainly again."""
        self.calls: int = 0
        self._before = [0, 0]  # the moments when the last call began and ended
        self._capture: Capture | None = None
        self._training = settings.TRAINING  # the mode of the capture
        self._others: dict[bool, Capture | None] = {}  # captures of other modes
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return type(self), (self.function,)

    @overload
    def __get__(self, obj: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: TinyJit[Concatenate[Any, Q], R], obj: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self if obj is None else functools.partial(self.__call__, obj)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        capture = self._capture
        settled = None if capture is None or kwargs else capture.settled
        if capture is not None and settled is not None and settled.still(capture):
            with self._lock:
                memories = at_a_glance(args, settled.glances)
                if memories is not None and capture is self._capture:
                    self.calls += 1
                    if capture.straight is not None:
                        return capture.straight.run(capture, memories)
                    return self._replay(capture, memories, {})[0]
        return self._called(args, kwargs)

    def _called(self, args: Any, kwargs: Any) -> R:
        """The result of a call of which nothing is known yet."""
        function: Callable[..., R] = self.function
        checked = settings.CHECK_NAN or settings.CHECK_INDEX  # which look at values in between
        if not settings.JIT or checked or getattr(_capturing, "active", None) is not None:
            return function(*args, **kwargs)
        found = Found()
        plain = signature_of((args, kwargs), found)
        nodes = [resolve(t.node) for t in found.tensors]
        backed = all(map(is_backed, nodes))
        if not backed and any(map(is_traced, nodes)):
            return function(*args, **kwargs)
        with self._lock:
            self.calls += 1
            if self._training != settings.TRAINING:
                self._others[self._training] = self._capture
                self._training = settings.TRAINING
                self._capture = self._others.pop(self._training, None)
            if not backed:
                nodes = realize([(t.node, t.device) for t in found.tensors])
            memories = [m for node in nodes for m in memories_of(node)]
            if self.calls == 1:
                begin = moment()
                try:
                    return function(*args, **kwargs)
                finally:
                    self._before[:] = begin, moment()
            signature = (plain, tuple(layout_of(node) for node in nodes), described(memories))
            if self._capture is None:
                return self._record(signature, found, nodes, args, kwargs)
            check_same(self._capture.signature, signature)
            if not self._capture.is_current():
                return self._record(signature, found, nodes, args, kwargs)
            leaves = [found.tensors[number] for number in self._capture.graded]
            _refuse_gradients(leaves)
            result, gradients = self._replay(self._capture, memories, found.values())
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf.grad = gradient
            return result

    # -- capturing ----------------------------------------------------------------------------

    def _record(self, signature: Any, found: Found, nodes: list[Node], args: Any, kwargs: Any) -> R:
        tensors, values = found.tensors, found.values()
        capture = Capture(signature, [m for node in nodes for m in memories_of(node)], values)
        # Inputs under new names: nothing computed from them before can be taken for this call's.
        fresh = {id(m): adopt(m) for m in capture.inputs}
        swapped: dict[int, Any] = {
            id(t): stand_in(t, node, [fresh[id(m)] for m in memories_of(node)])
            for t, node in zip(tensors, nodes, strict=True)
        }
        swapped.update(found.stand_ins())
        function: Callable[..., R] = self.function
        _capturing.active = capture
        changes.of_captures(1)
        try:
            begin, end = self._before
            with expect_replays(capture.inputs, (begin, end)), given(values):
                result = function(*exchanged(args, swapped), **exchanged(kwargs, swapped))
                gained = [_has_gained(t, swapped[id(t)]) for t in tensors]
                capture.graded = [number for number, has_one in enumerate(gained) if has_one]
                _refuse_gradients([tensors[n] for n in capture.graded])
                gradients = [swapped[id(tensors[n])].grad for n in capture.graded]
                outputs = Found()
                signature_of((result, gradients), outputs)
                returned = realize([(t.node, t.device) for t in outputs.tensors])
        finally:
            _capturing.active = None
            changes.of_captures(-1)
            bind_holders(capture)
        self._finish(capture, (result, gradients), returned)
        if not capture.interpreted:  # the REF device has nothing to replay: each call runs plainly
            self._capture = capture
            capture.state = state_of(capture)
            capture.watched = watched_by(capture)
            plain = not capture.graded and not values
            glances = Glance.of(args, kwargs) if plain else None
            if glances is not None:
                capture.settled = Settled(glances)
                capture.straight = straight_of(capture, self._before)
        for number, gradient in zip(capture.graded, gradients, strict=True):
            tensors[number].grad = gradient
        return with_sizes(result, values)

    def _finish(self, capture: Capture, result: Any, returned: list[Node]) -> None:
        capture.result = result
        inputs = {id(m) for m in capture.inputs}
        for node in returned:
            found = memories_of(node)
            if any(id(m) in inputs for m in found):
                raise JitError("[jit] the function returns one of its inputs; return a copy of it")
            capture.returned.append((node, found))
        for run in capture.runs:
            for memory in run.overwritten:
                if id(memory) in inputs:
                    raise JitError(
                        "[jit] the function assigns to one of its arguments; make it an attribute "
                        "or a closure variable, which replays keep, or return the new value"
                    )
        renew(capture)
        prepare(capture)
        let_go_of_memory(capture)

    # -- replaying ----------------------------------------------------------------------------

    def _replay(
        self, capture: Capture, memories: list[Memory], values: dict[str, int]
    ) -> tuple[R, list[Any]]:
        """The result, and the gradients of those arguments that got some."""
        if capture.straight is not None:
            return capture.straight.run(capture, memories), []
        step_state(capture)
        moved = {id(old): new for old, new in zip(capture.inputs, memories, strict=True)}
        renewed: dict[int, Node] = {}
        sizes = sizes_with(capture, values)
        for old, size in zip(capture.made, sizes, strict=True):
            moved[id(old)] = new_memory(old.device, old.dtype, size, old.image)
            renewed[id(old)] = adopt(moved[id(old)])
        for old, new in moved.items():
            for calls, call, slot in capture.patches.get(old, ()):
                calls.set_arg(call, slot, new.buffer.argument)
        for calls, call, slot, name in capture.variables:
            calls.set_var(call, slot, values[name])
        begin = moment()
        for memory in capture.overwritten:
            memory.written()
        self._before[:] = begin, moment()
        start = time.perf_counter()
        for kept in capture.kept:
            kept.refresh()
        for step in capture.replay:
            if isinstance(step, (Transfer, HostCall)):
                step.run(moved)
            else:
                step.run()
        seconds = time.perf_counter() - start
        count(capture.work, seconds)
        returned = capture.returned
        if values:
            returned = [(bind([node], values)[0], memories) for node, memories in returned]
        wanted = iter(returned)
        result, gradients = capture.result
        made = with_sizes(refreshed(result, wanted, renewed), values)
        return made, [refreshed(gradient, wanted, renewed) for gradient in gradients]


def _has_gained(argument: Any, stand_in: Any) -> bool:
    return argument.is_leaf and stand_in.grad is not None


def _refuse_gradients(leaves: Sequence[Any]) -> None:
    """A replay gives each of `leaves` a gradient, which is not added to what one has."""
    for leaf in leaves:
        if leaf.grad is not None:
            raise JitError(
                f"[jit] an argument of shape {leaf.node.shape} that requires gradients has one "
                "from before, and replays add to none: set its .grad to None before each call, or "
                "make it an attribute or a closure variable, as an optimiser's parameters are"
            )


jit = TinyJit
