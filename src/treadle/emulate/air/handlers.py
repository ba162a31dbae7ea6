"""Tables of what writes an instruction or a call of a built-in function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from treadle.emulate.air.emit import Emitter
    from treadle.emulate.air.syntax import Instruction

__all__ = ["Handler", "Handlers"]


class Handler(Protocol):
    def __call__(self, e: Emitter, item: Instruction, /) -> None: ...


class Handlers(dict[str, Handler]):
    """Handlers by names: of opcodes, or of functions without the types at their ends."""

    def of(self, *names: str):
        def register(handler: Handler) -> Handler:
            for name in names:
                self[name] = handler
            return handler

        return register
