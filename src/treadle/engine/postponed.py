"""Runs that are put off: their kernels are compiled while another graph is scheduled.

    put_off(PostponedRun(lock, begun, launch, revoke), inputs, outputs)     nothing has run
    outputs[0].buffer                  now it has: whoever asks for such memory has the run done
    catch_up()                         and so has everything else that was put off
    give_up()                          or it never will

Nothing else may run before `catch_up`, for it may overwrite what such a run reads. What a run that
failed, or that was given up, was to compute are graphs again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from .memory import Memory
from .pipeline import Begun
from .storages import capturing

__all__ = ["PostponedRun", "catch_up", "give_up", "put_off"]

Launch = Callable[[list[Memory], list[Memory]], None]


class PostponedRun:
    """What `launch` does with the inputs and outputs of a program that has `begun`.

    It runs under `lock`, and as a part of no captured function. `revoke` is called if it will not.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        begun: Begun,
        launch: Launch,
        revoke: Callable[[], None],
    ) -> None:
        self._lock, self._begun, self._launch, self._revoke = lock, begun, launch, revoke
        self._inputs: list[Memory] = []
        self._outputs: list[Memory] = []
        self._written: list[tuple[Memory, Memory]] = []  # each, and the same for this run alone
        self._new: list[tuple[Memory, Memory]] = []
        self._has_run = False

    def set_aside(self, inputs: list[Memory], outputs: list[Memory]) -> None:
        """From now on whoever asks for the buffer of memory that it writes has it run."""
        written = {id(inputs[slot]): inputs[slot] for slot in self._begun.program.written}
        for memory in written.values():
            memory.written()
        for pairs, memories in ((self._written, written.values()), (self._new, outputs)):
            for memory in memories:
                pairs.append((memory, memory.copy()))
                memory.wait_for(self.wait)
        mine = {id(memory): aside for memory, aside in (*self._written, *self._new)}
        self._inputs = [mine.get(id(memory), memory) for memory in inputs]
        self._outputs = [mine[id(memory)] for memory in outputs]

    def wait(self) -> None:
        """Run it, and what was put off before it, unless that has been done."""
        with self._lock:
            while self in _waiting:
                _waiting[0].run()

    def run(self) -> None:
        """Run it now. Raises what it fails with."""
        try:
            with capturing.suspended():
                self._begun.finish()
                self._launch(self._inputs, self._outputs)
            self._has_run = True
        except BaseException:
            self.end()
            raise
        self.end()

    def end(self) -> None:
        """It has run, or it will not. Called twice it does the same."""
        for memory, aside in self._written:
            memory.computed(aside.buffer)
        for memory, aside in self._new:
            if self._has_run:
                memory.computed(aside.buffer)
            else:
                memory.fail()
        if not self._has_run:
            self._revoke()
        if self in _waiting:
            _waiting.remove(self)


_waiting: list[PostponedRun] = []


def put_off(run: PostponedRun, inputs: list[Memory], outputs: list[Memory]) -> None:
    """Have `run` wait for `catch_up`, or for the first who asks for what it writes."""
    try:
        run.set_aside(inputs, outputs)
        _waiting.append(run)
    except BaseException:
        run.end()
        raise


def catch_up() -> None:
    """Run everything that has been put off. The caller has the lock."""
    while _waiting:
        _waiting[0].run()


def give_up() -> None:
    """Run nothing of what has been put off."""
    while _waiting:
        _waiting[0].end()
