"""Messages to Metal's objects, by their Objective-C selectors: all that the runtime says of Metal.

    queue = messages.send(device, "newCommandQueue")
    messages.number(queue, "status")            -> 4
    with messages.pool(): ...                   # what Metal makes in passing is freed at the end

`PyObjC` sends them through pyobjc, the emulator answers them itself. A selector is spelled as Apple
documents it. What a message returns is asked for by its kind: an object or none, a number, a text,
seconds, or what a method with an NSError gives, the object and the error.

One surprise: pyobjc frees objects when Python does, but not those that Metal only lends until the
next pool is emptied; on a thread without one they stay for ever. So whoever sends opens a pool.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import NewType, cast

from treadle.errors import DeviceError

__all__ = ["Handle", "Messages", "PyObjC", "Size", "open_messages"]

Handle = NewType("Handle", object)
"""One of Metal's objects."""

Size = tuple[int, int, int]
"""Metal's MTLSize: width, height, depth. Likewise an NSRange is (start, length)."""


class Messages(ABC):
    """Who answers messages."""

    @abstractmethod
    def answer(self, receiver: Handle, selector: str, arguments: tuple[object, ...]) -> object:
        """What a method returns, in Python's types."""

    @abstractmethod
    def made(self, class_name: str) -> Handle:
        """A new object of one of Metal's classes, [[CLASS alloc] init]."""

    @abstractmethod
    def devices(self) -> list[Handle]:
        """The GPUs of this machine, the default one first."""

    @abstractmethod
    def contents(self, buffer: Handle, nbytes: int) -> memoryview:
        """The memory of an MTLBuffer, writable."""

    @abstractmethod
    def object_at(self, pointer: int) -> Handle:
        """The object at a pointer of somebody else's; it is retained.

        What is no object there ends the program, or raises DeviceError.
        """

    @abstractmethod
    def pool(self) -> AbstractContextManager[object]:
        """Until its end Metal's temporary objects live."""

    def send(self, receiver: Handle, selector: str, *arguments: object) -> Handle:
        """An object. Raises DeviceError for nil."""
        found = self.answer(receiver, selector, arguments)
        if found is None:
            raise DeviceError(f"Metal gave no object for {selector}")
        return Handle(found)

    def find(self, receiver: Handle, selector: str, *arguments: object) -> Handle | None:
        """An object, or None for nil."""
        found = self.answer(receiver, selector, arguments)
        return None if found is None else Handle(found)

    def tell(self, receiver: Handle, selector: str, *arguments: object) -> None:
        """A method that returns nothing."""
        self.answer(receiver, selector, arguments)

    def number(self, receiver: Handle, selector: str, *arguments: object) -> int:
        """An integer or a BOOL."""
        return int(cast("int", self.answer(receiver, selector, arguments)))

    def seconds(self, receiver: Handle, selector: str) -> float:
        """A double."""
        return float(cast("float", self.answer(receiver, selector, ())))

    def text(self, receiver: Handle, selector: str) -> str:
        """An NSString."""
        return str(self.answer(receiver, selector, ()))

    def attempt(
        self, receiver: Handle, selector: str, *arguments: object
    ) -> tuple[Handle | None, str]:
        """A method whose last argument is an NSError: the object, or None and what went wrong."""
        pair = cast("tuple[object, object]", self.answer(receiver, selector, (*arguments, None)))
        found, error = pair
        if found is not None:
            return Handle(found), ""
        why = "no reason was given"
        return None, why if error is None else self.text(Handle(error), "localizedDescription")


class PyObjC(Messages):
    """Metal itself, through pyobjc. Raises DeviceError where that is not installed."""

    def __init__(self) -> None:
        try:
            import Metal
            import objc
        except ImportError as error:
            raise DeviceError(
                'METAL needs pyobjc; install it: pip install "treadle[metal]"'
            ) from error
        self._metal, self._objc = Metal, objc

    def answer(self, receiver: Handle, selector: str, arguments: tuple[object, ...]) -> object:
        return getattr(receiver, selector.replace(":", "_"))(*arguments)

    def made(self, class_name: str) -> Handle:
        return Handle(getattr(self._metal, class_name).alloc().init())

    def devices(self) -> list[Handle]:
        default = self._metal.MTLCreateSystemDefaultDevice()
        others = self._metal.MTLCopyAllDevices()
        return [Handle(one) for one in [default, *(one for one in others if one != default)] if one]

    def contents(self, buffer: Handle, nbytes: int) -> memoryview:
        return memoryview(self.send(buffer, "contents").as_buffer(nbytes))  # type: ignore[attr-defined]

    def object_at(self, pointer: int) -> Handle:
        return Handle(self._objc.objc_object(c_void_p=pointer))

    def pool(self) -> AbstractContextManager[object]:
        return cast("AbstractContextManager[object]", self._objc.autorelease_pool())


def open_messages() -> Messages:
    """Metal of this machine. Raises DeviceError where there is none."""
    if sys.platform != "darwin":
        raise DeviceError("METAL needs a Mac with Apple's GPU; EMULATE=1 plays one")
    return PyObjC()
