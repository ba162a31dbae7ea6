"""TinyJit: a function of tensors is captured once and replayed by one native call.

    @TinyJit
    def step(x): return (x @ w).relu().realize()

    step(a)   # runs plainly
    step(b)   # runs and is captured
    step(c)   # replays: no Python per kernel

Replays read and write the same memory as the captured call, so that parameters, moments and random
counters go on from call to call; tensors returned get fresh memory each time. What cannot be
replayed faithfully raises JitError: other shapes, other plain arguments, values read in the middle.
What the function writes, to tensors around it and to its arguments, each call writes.

A size that an argument binds, `Variable("n", 0, 99).bind(7)`, may be bound to another value in each
call, and so may one in an argument's shape: the function is captured with the variable itself, for
all of its values.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..config import settings
from ..errors import JitError
from ..forks import fork_safe
from ..ir.choices import choosing, is_observed, note_kernel
from ..ir.node import Node
from ..ir.symbolic import bind
from . import memory as memory_table
from .arguments import (
    Found,
    Glance,
    Signature,
    at_a_glance,
    check_same,
    described,
    exchanged,
    is_traced,
    layout_of,
    memories_of,
    over,
    refreshed,
    same_objects,
    shares_less,
    signature_of,
    sizes_of,
    stand_in,
    told_apart,
    with_arguments,
    with_sizes,
)
from .background_calls import finish_calls
from .bindings import binding
from .capture import (
    Capture,
    begin,
    compute_written,
    graphs_around,
    made_around,
    made_before,
    note_names,
    step_state,
)
from .capture_outputs import (
    compute_left,
    finish,
    interferes,
    leave,
    reaches,
    shares_memory,
    watch_graphs,
)
from .check_kernels import check_again
from .counters import count
from .fast_replay import Settled, straight_of
from .launching import run_reported, run_step
from .memory import Memory, adopt, moment, new_memory
from .pickled_functions import Parts, made_of, parts_of
from .prepacked import expect_replays
from .realized import is_backed, next_number, resolve
from .repeated_calls import RepeatedCall
from .run import on_compute, on_interpret, realize
from .steps import BetweenRuns, Step, listeners
from .storages import (
    Captured,
    FirstCall,
    capturing,
    first_call,
    is_behind,
    next_storage,
    storage_of,
)
from .variables import bind_holders, sizes_with

__all__ = ["NO_VALUES", "TinyJit", "jit"]

NO_VALUES: Mapping[str, int] = {}

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


def _refuse_reading() -> None:
    if capturing.active is not None:
        raise JitError(
            "[jit] a value was read on the host while capturing (.item(), .numpy(), .tolist(), or "
            "a condition on a tensor); replays could not see it change. Return the tensor and read "
            "it outside"
        )


def _listen(step: Step) -> None:
    if isinstance(capture := capturing.active, Capture):
        capture.steps.append(step)


def _listen_to_interpreter() -> None:
    if isinstance(capture := capturing.active, Capture):
        capture.interpreted = True


def _compute_what_was_before(nodes: Sequence[Node]) -> None:
    first = first_call.value
    if first is not None and (pending := made_around(first.outside, nodes)):
        with first_call.of(None), capturing.suspended():
            realize(pending, may_wait=True)
    if not isinstance(capture := capturing.active, Capture):
        return
    if pending := made_before(capture, nodes):
        with capture.suspended():
            realize(pending, may_wait=True)
    note_names(capture, nodes)


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
    `prune` is accepted: what packs weights runs again only where they have changed, in any case.
    What layers do while training (`Tensor.training`) and otherwise are captures of their own. A
    copy, or what is loaded from a pickle, has the function and has captured nothing.
    Inside of a transform (grad, vmap, ...) it is the function itself.
    """

    def __init__(self, function: Callable[P, R], prune: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function, self.prune = function, prune
        self.reset()

    def reset(self) -> None:
        """Forget what was captured: the next call runs plainly again."""
        self.calls: int = 0
        self._before = [0, 0]  # the moments when the last call began and ended
        self._capture: Capture | None = None
        self._training = settings.TRAINING  # the mode of the capture
        self._others: dict[bool, Capture | None] = {}  # captures of other modes
        self._writes = False  # whether the first call has written to any tensor
        self._lock = fork_safe(threading.RLock(), 0)  # the function may fork

    def __reduce__(self) -> tuple[object, ...]:
        named = _found_by_name(self.function)
        if named is self:  # it is a decorated function, which has no other name
            return _by_name, (self.function.__module__, self.function.__qualname__)
        function = self.function if named is self.function else parts_of(self.function)
        return _made_of, (type(self), function, self.prune)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return type(self)(self.function, self.prune)

    __copy__ = functools.partialmethod(__deepcopy__, memo={})

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
                if memories is not None and capture.state.memories:
                    memories = memories if capture.is_apart(memories) else None
                if memories is not None and capture is self._capture:
                    self.calls += 1
                    if capture.straight is not None:
                        finish_calls()
                        return capture.straight.run(capture, memories)
                    return self._replay(capture, memories, {})[0]
        return self._called(args, kwargs)

    def run_at(self, addresses: Sequence[int], values: Mapping[str, int] = NO_VALUES) -> bool:
        """Replay from arguments into results that are at these addresses of the host; False where
        a call is more than that, and nothing was done.

        For who has their memory and knows that shapes, dtypes and devices are the captured ones,
        with these values of all variables.
        """
        capture = self._capture
        if capture is None or capture.settled is None or not capture.settled.still(capture):
            return False
        with self._lock:
            straight = capture.addressed
            if capture is not self._capture or straight is None:
                return False
            if straight.places != len(addresses):
                return False
            self.calls += 1
            finish_calls()
            straight.run_at(capture, addresses, values)
        return True

    def _called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> R:
        """The result of a call of which nothing is known yet."""
        function: Callable[..., R] = self.function
        checked = settings.CHECK_NAN or settings.CHECK_INDEX > 1  # which look at values in between
        if not settings.JIT or checked or capturing.active is not None:
            return function(*args, **kwargs)
        kwargs = dict(sorted(kwargs.items()))  # their order means nothing
        found = Found()
        plain = signature_of((args, kwargs), found)
        nodes = [resolve(t.node) for t in found.tensors]
        behind = {id(t) for t in found.tensors if is_behind(t)}
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
            if self.calls == 1:
                return self._first_call(found.tensors, args, kwargs)
            signature = (plain, tuple(layout_of(node) for node in nodes), described(nodes))
            if self._capture is not None and shares_less(signature, self._capture.signature):
                nodes = told_apart(found.tensors, nodes)
                signature = (*signature[:2], described(nodes))
            if self._capture is not None and self._capture.same - same_objects(found.tensors):
                self._capture = None  # what stands for one tensor would stand for two
            if self._capture is not None and not shares_less(self._capture.signature, signature):
                check_same(self._capture.signature, signature)
            elif self._capture is not None:
                self._capture = None
            if self._capture is None or not self._capture.is_current():
                if self._may_interfere(found, (args, kwargs)):
                    return function(*args, **kwargs)
                return self._record(signature, found, args, kwargs)
            # what was computed just now may have been in memory of theirs
            nodes = realize([(t.node, t.device) for t in found.tensors])
            memories = [m for node in nodes for m in memories_of(node)]
            written = {id(found.tensors[number]) for number in self._capture.given}
            if written & behind or interferes(self._capture, found.tensors, memories):
                return function(*args, **kwargs)
            leaves = [found.tensors[number] for number in self._capture.graded]
            _refuse_gradients(leaves)
            result, gradients = self._replay(self._capture, memories, found.values(), found.tensors)
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf.grad = gradient
            return result

    def _first_call(
        self, tensors: Sequence[Captured], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> R:
        """The result of the first call, which tells what the function writes to.

        `tensors` are its arguments. It runs the kernels that the later calls run.
        """
        function: Callable[..., R] = self.function
        compute_written()
        # what was written just now may have been memory of theirs, and they have moved
        nodes = realize([(t.node, t.device) for t in tensors])
        around, begin = first_call.value, moment()
        first = FirstCall(graphs_around(), next_number())
        inputs = [memory for node in nodes for memory in memories_of(node)]
        try:
            with first_call.of(first), expect_replays(inputs, (0, 0)):
                result = function(*args, **kwargs)
                compute_left(first, result)
                compute_written()
                return result
        finally:
            if around is not None:
                around.writes |= first.writes
            self._before[:] = begin, moment()
            self._writes = bool(first.writes)

    def _may_interfere(self, found: Found, arguments: object) -> bool:
        """Whether one argument may see what is written to another, or to what is captured.

        What stands for an argument while the function is captured would not.
        """
        if not self._writes:
            return False
        if any(map(is_behind, found.tensors)):
            return True  # a part that is written lies among values that it does not show
        storages = {id(t if t._storage is None else t._storage) for t in found.tensors}
        if len(storages) < len(found.tensors):
            return True
        return shares_memory(found.tensors) or reaches(self.function, arguments, found.tensors)

    # -- capturing ----------------------------------------------------------------------------

    def _record(
        self, signature: Signature, found: Found, args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> R:  # fmt: skip
        tensors, values = found.tensors, found.values()
        capture = Capture(signature, [], values, same=same_objects(tensors))
        begin(capture)
        nodes = told_apart(tensors, realize([(t.node, t.device) for t in tensors]))
        capture.start([m for node in nodes for m in memories_of(node)])
        capture.signature = (*signature[:2], described(nodes))
        # Inputs under new names: nothing computed from them before can be taken for this call's.
        sizes = [size for node in nodes for size in sizes_of(node)]
        fresh = {id(m): adopt(m, (n,)) for m, n in zip(capture.inputs, sizes, strict=True)}
        seen = {
            id(t): stand_in(t, node, [fresh[id(m)] for m in memories_of(node)])
            for t, node in zip(tensors, nodes, strict=True)
        }
        stand_ins = [seen[id(t)] for t in tensors]
        capture.stand_ins = {node.arg.token for node in fresh.values()}
        before = [(storage_of(tensor), tensor.node) for tensor in stand_ins]
        capture.last = next_storage()
        swapped: dict[int, object] = {**seen, **found.stand_ins()}
        function: Callable[..., R] = self.function
        try:
            capturing.begin(capture)
            with (
                expect_replays(capture.inputs, (self._before[0], self._before[1])),
                binding(values),
            ):
                result = function(*exchanged(args, swapped), **exchanged(kwargs, swapped))
                pairs = enumerate(zip(tensors, stand_ins, strict=True))
                capture.graded = [number for number, pair in pairs if _has_gained(*pair)]
                _refuse_gradients([tensors[n] for n in capture.graded])
                gradients = [stand_ins[n].grad for n in capture.graded]
                outcome = leave(capture, (result, gradients), stand_ins, before)
        finally:
            try:
                capturing.end()
                capture.end()
            finally:
                bind_holders(capture)
        if not capture.interpreted:  # the REF device has nothing to replay: each call runs plainly
            finish(capture, outcome, tensors)
            watch_graphs(capture, self.function, (args, kwargs), tensors)
            capture.graphs.clear()
            self._capture = capture if capture.is_faithful else None
        if self._capture is capture:
            plain = not capture.graded and not capture.given and not outcome.has_arguments
            given = found.tensors if values else args
            glances = Glance.of(given, {} if values else kwargs) if plain else None
            if glances is not None:
                # What variables are bound to takes more than a glance.
                capture.settled = Settled([] if values else glances)
                capture.addressed = straight_of(capture, self._before)
                capture.straight = None if values else capture.addressed
            if is_observed():
                _note(capture)
        for number, gradient in zip(capture.graded, gradients, strict=True):
            tensors[number].grad = gradient
        for number, (node, own) in zip(capture.given, outcome.given, strict=True):
            tensor = tensors[number]
            tensor._given(node, tensor.node if number in capture.unseen else own)
        back = {id(stand): tensor for stand, tensor in zip(stand_ins, tensors, strict=True)}
        return with_sizes(exchanged(result, back), values)

    # -- replaying ----------------------------------------------------------------------------

    def _replay(
        self, capture: Capture, memories: list[Memory], values: dict[str, int],
        tensors: Sequence[Captured] = (),
    ) -> tuple[R, list[object]]:  # fmt: skip
        """The result, and the gradients of those arguments that got some."""
        if settings.CHECK_KERNELS:
            return self._replay_checked(capture, memories, values, tensors)
        if capture.straight is not None and settings.DEBUG < 2:
            finish_calls()
            return capture.straight.run(capture, memories), []
        found = self._replay_on(capture, _moved(capture, memories, values), values, tensors)
        if capture.addressed is not None:
            capture.addressed.forget()
        return found

    def _replay_checked(
        self, capture: Capture, memories: list[Memory], values: dict[str, int],
        tensors: Sequence[Captured],
    ) -> tuple[R, list[object]]:  # fmt: skip
        """The same; then every kernel runs once more by itself, and is checked."""
        found: list[tuple[R, list[object]]] = []
        moved = _moved(capture, memories, values)

        def run() -> None:
            found.append(self._replay_on(capture, moved, values, tensors))
            if capture.addressed is not None:
                capture.addressed.forget()

        made = [moved[id(old)] for old in capture.made]
        what = f"a replay of {getattr(self.function, '__name__', 'a captured function')}"
        check_again(capture.steps, capture.overwritten, moved, made, run, what)
        return found[0]

    def _replay_on(
        self, capture: Capture, moved: dict[int, Memory], values: dict[str, int],
        tensors: Sequence[Captured],
    ) -> tuple[R, list[object]]:  # fmt: skip
        """The same, where the arguments and results of the capture are `moved`."""
        finish_calls()
        step_state(capture)
        renewed = {id(old): adopt(moved[id(old)]) for old in capture.made}
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
        stretches = iter(capture.stretches)
        for place, step in enumerate(capture.replay):
            for call in capture.awaited.get(place, ()):
                call.finish()
            if isinstance(step, BetweenRuns):
                run_step(step, moved)
            elif isinstance(step, RepeatedCall) or settings.DEBUG < 2:
                step.run()
            else:
                run_reported(step, next(stretches))
        for call in capture.awaited.get(len(capture.replay), ()):
            call.finish()
        seconds = time.perf_counter() - start
        count(capture.work, seconds)
        returned = capture.returned
        if values:
            returned = [(bind([node], values)[0], memories) for node, memories in returned]
        wanted = iter(returned)
        result, gradients = capture.result
        made = with_sizes(refreshed(result, wanted, renewed), values)
        found = [refreshed(gradient, wanted, renewed) for gradient in gradients]
        for number in capture.given:
            tensor, node = tensors[number], _renewed(next(wanted), renewed)
            own = tensor.node if number in capture.unseen else None
            if number in capture.shows_else:
                own = _renewed(next(wanted), renewed)
            tensor._given(node, own)
        return with_arguments(made, tensors) if tensors else made, found


def _found_by_name(function: object) -> object:
    """What stands where `function` says that it is defined, or None."""
    found = sys.modules.get(getattr(function, "__module__", None) or "")
    for part in getattr(function, "__qualname__", "<>").split("."):
        found = getattr(found, part, None)
    return found


def _by_name(module: str, name: str) -> object:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _made_of(kind: Callable[[Any, bool], object], function: object, prune: bool) -> object:
    return kind(made_of(function) if isinstance(function, Parts) else function, prune)


def _moved(capture: Capture, memories: list[Memory], values: dict[str, int]) -> dict[int, Memory]:
    """The memory of one replay: that of the arguments, and new memory for the results."""
    moved = {id(old): new for old, new in zip(capture.inputs, memories, strict=True)}
    sizes = sizes_with(capture, values)
    for old, size in zip(capture.made, sizes, strict=True):
        moved[id(old)] = new_memory(old.device, old.dtype, size, old.image)
    return moved


def _note(capture: Capture) -> None:
    """Tell who observes how the kernels of a capture are replayed."""
    ways = ["native_replay"] if capture.straight is None else ["native_replay", "fast_replay"]
    with choosing(*ways):
        for run in capture.runs:
            for choices in run.program.choices:
                note_kernel(choices)
            for kept in capture.kept:
                kept.note(run)


def _renewed(known: tuple[Node, list[Memory]], renewed: dict[int, Node]) -> Node:
    node, memories = known
    return over(node, [renewed[id(memory)] for memory in memories])


def _has_gained(argument: Captured, stand_in: Captured) -> bool:
    return argument.is_leaf and stand_in.grad is not None


def _refuse_gradients(leaves: Sequence[Captured]) -> None:
    """A replay gives each of `leaves` a gradient, which is not added to what one has."""
    for leaf in leaves:
        if leaf.grad is not None:
            raise JitError(
                f"[jit] an argument of shape {leaf.node.shape} that requires gradients has one "
                "from before, and replays add to none: set its .grad to None before each call, or "
                "make it an attribute or a closure variable, as an optimiser's parameters are"
            )


jit = TinyJit
