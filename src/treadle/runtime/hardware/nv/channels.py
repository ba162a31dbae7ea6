"""The channels of one GPU: rings of pushbuffers that kernels or copies are started by.

    channels = Channels(objects, memory, timeline)
    channel = channels.make(Subchannel.COMPUTE, generation.compute)
    channels.schedule()
    channel.submit(Submission(words, moment, [signal], timeout=60.0))

A submission is one piece of the pushbuffer and one entry of the channel's GPFIFO. The channel waits
for signals of others, does the work, and makes its own moment's signal 0, with the time.
"""

from __future__ import annotations

from array import array

from treadle.runtime.hardware.host_memory import PAGE, view
from treadle.runtime.hardware.nv import methods
from treadle.runtime.hardware.nv.abi import NOTIFICATION
from treadle.runtime.hardware.nv.memory import GPUMemory
from treadle.runtime.hardware.nv.methods import Subchannel
from treadle.runtime.hardware.nv.objects import GPUObjects
from treadle.runtime.hardware.order import Submission
from treadle.runtime.hardware.ring import Room
from treadle.runtime.hardware.timeline import Moment, SlotLayout, Timeline

__all__ = ["SIGNAL_SLOT", "Channel", "Channels"]

# A release writes 64 bits and, 8 bytes behind, the time. Two of them: of the end, of the start.
SIGNAL_SLOT = SlotLayout(nbytes=32, value=0, start=24, end=8)
_START = 16  # where the release is that tells when work began

_ENTRIES = 1024  # of a GPFIFO
_ENTRY_BYTES = 8  # NVC56F_GP_ENTRY__SIZE
_PUSHBUFFER_BYTES = 1 << 20
_GP_PUT = 0x8C  # in Nvc56fControl
_USERD_BYTES = 512
_NOTIFIER_BYTES = PAGE
_SUBROUTINE, _LENGTH = 41, 42  # bits of an entry: GP_ENTRY1_LEVEL, GP_ENTRY1_LENGTH
_STATUS = NOTIFICATION.offsets["status"] // 2  # in halves of words
_FAILED = 0xFFFF  # a notification's status; it is 0 before anything happened


class Channels:
    """Makes the channels of one GPU's group, and holds the memory that they need."""

    def __init__(self, objects: GPUObjects, memory: GPUMemory, timeline: Timeline) -> None:
        self.objects, self.memory, self.timeline = objects, memory, timeline
        self._channels: list[Channel] = []

    def make(self, subchannel: Subchannel, kind: int) -> Channel:
        """A channel with an object of class `kind`, which runs when the group is scheduled."""
        channel = Channel(self, subchannel, kind)
        self._channels.append(channel)
        return channel

    def schedule(self) -> None:
        """Lets all channels run."""
        objects = self.objects
        objects.rm.control(objects.group, "schedule", bEnable=1)
        for channel in self._channels:
            channel.bind()

    def error(self) -> int | None:
        """The number by which the driver says why a channel has stopped; None if all are well."""
        for channel in self._channels:
            error = channel.error()
            if error is not None:
                return error
        return None


class Channel:
    """One channel. `limit` is how many words one submission may have."""

    def __init__(self, channels: Channels, subchannel: Subchannel, kind: int) -> None:
        objects, memory = channels.objects, channels.memory
        self._objects, self._timeline = objects, channels.timeline
        self._platform = objects.rm.platform
        self._subchannel, self._kind = subchannel, kind
        self._ring = memory.alloc_shared(_ENTRIES * _ENTRY_BYTES + _USERD_BYTES)
        self._userd = self._ring.address + _ENTRIES * _ENTRY_BYTES
        self._notifier = memory.alloc_shared(_NOTIFIER_BYTES)
        self._commands = memory.alloc_shared(_PUSHBUFFER_BYTES)
        for block in (self._ring, self._notifier):
            view(block.address, block.nbytes)[:] = bytes(block.nbytes)
        self._notification = view(self._notifier.address, NOTIFICATION.nbytes)
        self._halves = self._notification.cast("H")
        self._entries = view(self._ring.address, _ENTRIES * _ENTRY_BYTES).cast("Q")
        self._words = view(self._commands.address, _PUSHBUFFER_BYTES).cast("I")
        self._entry_room = Room(channels.timeline, _ENTRIES - 1)  # all full looks like empty
        self._word_room = Room(channels.timeline, len(self._words))
        self.limit = len(self._words) // 4
        self._create()

    def _create(self) -> None:
        rm, objects = self._objects.rm, self._objects
        self.number = rm.alloc(
            objects.group,
            objects.generation.channel,
            "channel",
            hObjectError=self._notifier.handle,
            gpFifoOffset=self._ring.address,
            gpFifoEntries=_ENTRIES,
            hContextShare=objects.share,
            hUserdMemory=[self._ring.handle],
            userdOffset=[_ENTRIES * _ENTRY_BYTES],
        )
        self.engine = rm.alloc(self.number, self._kind)
        self._token: int = rm.control(self.number, "token")["workSubmitToken"]
        rm.uvm(
            "register_channel",
            gpuUuid=objects.uuid,
            rmCtrlFd=rm.fd,
            hClient=rm.client,
            hChannel=self.number,
        )

    def bind(self) -> None:
        """Tells the channel the class of its subchannel."""
        moment = self._timeline.next(0.0)
        words = array("I", methods.set_object(self._subchannel, self._kind))
        self.submit(Submission(words, moment, (), 0.0))

    # -- work -------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many submissions there have been."""
        return self._entry_room.position

    def submit(self, given: Submission) -> None:
        """Starts work behind signals of others, and makes the moment its end."""
        all_words = array("I")
        for signal in given.after:
            all_words += array("I", methods.acquire(signal, 0))
        moment = given.moment
        if given.is_timed:
            all_words += array("I", methods.release(moment.address + _START, 0))
        all_words += given.words
        all_words += array("I", methods.release(self._timeline.value_of(moment), 0))
        self._entry_room.make(1, given.timeout)
        start = self._word_room.take(len(all_words), given.timeout)
        self._words[start : start + len(all_words)] = memoryview(all_words)
        address = self._commands.address + 4 * start
        entry = address | 1 << _SUBROUTINE | len(all_words) << _LENGTH
        self._entries[self.position % _ENTRIES] = entry
        self._entry_room.position += 1
        self.finish(moment)

    def finish(self, moment: Moment) -> None:
        """Goes on with a submission that was interrupted when its entry was in the ring."""
        self._entry_room.used_until(moment)
        self._word_room.used_until(moment)
        platform = self._platform
        platform.barrier()
        platform.store32(self._userd + _GP_PUT, self.position % _ENTRIES)
        platform.barrier()
        platform.store32(self._objects.doorbell, self._token)

    def error(self) -> int | None:
        """The number that the driver has left in the channel's notifier, if any."""
        if self._halves[_STATUS] != _FAILED:  # looked at before each launch
            return None
        return NOTIFICATION.unpack(self._notification)["info32"]
