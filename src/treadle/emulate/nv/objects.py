"""The objects of RM's clients: by handles, each below its parent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.nv.faults import Status

if TYPE_CHECKING:
    from treadle.emulate.machine.memory import AddressSpace, HostPages, MemoryObject
    from treadle.emulate.nv.channel import Channel
    from treadle.emulate.nv.gpu import EmulatedGPU
    from treadle.emulate.nv.group import ChannelGroup

__all__ = ["Object", "Objects"]

_CLIENTS = 0xC1D00000  # handles of clients begin there


@dataclass(eq=False)
class Object:
    """One object. What it holds beside its place in the tree depends on its class."""

    handle: int
    kind: str
    parent: Object | None
    gpu: EmulatedGPU | None
    children: list[Object] = field(default_factory=list)
    memory: MemoryObject | HostPages | None = None
    nbytes: int = 0
    space: AddressSpace | None = None
    flags: int = 0
    channel: Channel | None = None
    group: ChannelGroup | None = None
    mapped: int = 0  # how many ranges of UVM's it is mapped to

    def below(self) -> list[Object]:
        """All that are under it."""
        return [one for child in self.children for one in (child, *child.below())]


class Objects:
    """The objects of all clients."""

    def __init__(self) -> None:
        self._clients: dict[int, dict[int, Object]] = {}

    def add_client(self) -> int:
        """A new client; its handle."""
        handle = _CLIENTS + len(self._clients) + 1
        self._clients[handle] = {handle: Object(handle, "NV01_ROOT_CLIENT", None, None)}
        return handle

    @property
    def first_client(self) -> int:
        """The client that was there first. INVALID_CLIENT where there is none."""
        if not self._clients:
            raise Status("INVALID_CLIENT", "there is none yet")
        return next(iter(self._clients))

    def of(self, client: int) -> list[Object]:
        """All objects of a client. INVALID_CLIENT where there is none."""
        return list(self._of(client).values())

    def _of(self, client: int) -> dict[int, Object]:
        if client not in self._clients:
            raise Status("INVALID_CLIENT", f"{client:#x}")
        return self._clients[client]

    def find(self, client: int, handle: int, *kinds: str) -> Object:
        """An object of a client, of one of some kinds."""
        found = self._of(client).get(handle)
        if found is None or (kinds and found.kind not in kinds):
            wanted = f"is no {' or '.join(kinds)}" if kinds else "is none's"
            raise Status("INVALID_OBJECT_HANDLE", f"{handle:#x} {wanted}")
        return found

    def check_new(self, client: int, handle: int) -> None:
        """A handle that no object of the client has yet; else INSERT_DUPLICATE_NAME."""
        if handle in self._of(client) or not handle:
            raise Status("INSERT_DUPLICATE_NAME", f"{handle:#x}")

    def add(self, client: int, made: Object) -> None:
        """A new object, below its parent."""
        assert made.parent is not None
        made.parent.children.append(made)
        self._of(client)[made.handle] = made

    def remove(self, client: int, one: Object) -> list[Object]:
        """An object and all below it are no more; those."""
        assert one.parent is not None
        gone = [one, *one.below()]
        for each in gone:
            del self._of(client)[each.handle]
        one.parent.children.remove(one)
        return gone
