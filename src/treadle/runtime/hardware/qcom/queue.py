"""The queue of a context: packets in a ring of memory, which the driver is told of.

    queue.submit(Submission(words, moment, [signal], timeout=60.0))

A submission waits for signals of others, does the work, and makes its own moment's signal 0.
"""

from __future__ import annotations

from array import array

from treadle.runtime.hardware.host_memory import view
from treadle.runtime.hardware.order import Submission
from treadle.runtime.hardware.qcom import packets
from treadle.runtime.hardware.qcom.failures import KGSLError, QCOMFailures
from treadle.runtime.hardware.qcom.kgsl import KGSL
from treadle.runtime.hardware.qcom.memory import GPUMemory
from treadle.runtime.hardware.ring import Room
from treadle.runtime.hardware.timeline import Moment, SlotLayout, Timeline
from treadle.uninterrupted import uninterrupted

__all__ = ["SIGNAL_SLOT", "ContextQueue"]

SIGNAL_SLOT = SlotLayout(nbytes=32, value=0, start=8, end=16)
_BYTES = 1 << 20


class ContextQueue:
    """One context. `limit` is how many words one submission may have."""

    def __init__(
        self, kgsl: KGSL, memory: GPUMemory, timeline: Timeline, failures: QCOMFailures
    ) -> None:
        self._kgsl, self._timeline, self._failures = kgsl, timeline, failures
        self._block = memory.alloc_shared(_BYTES)
        self._words = view(self._block.address, _BYTES).cast("I")
        self._room = Room(timeline, len(self._words))
        self.limit = len(self._words) // 4
        self._context = kgsl.create_context()
        self._stamp = 0
        self.position = 0

    def submit(self, given: Submission) -> None:
        """Starts work behind signals of others, and makes the moment its end."""
        words, moment = array("I"), given.moment
        for signal in given.after:
            words.extend(packets.wait_for_value(signal, 0))
        words.extend(packets.invalidate_caches())
        if given.is_timed:
            words.extend(packets.timestamp(self._timeline.start_of(moment)))
        words += given.words
        if given.is_timed:
            words.extend(packets.wait_for_idle())
            words.extend(packets.timestamp(self._timeline.end_of(moment)))
        words.extend(packets.signal(self._timeline.value_of(moment), 0))
        start = self._room.take(len(words), given.timeout)
        self._kgsl.platform.will_write(self._block.address + 4 * start, 4 * len(words))
        self._words[start : start + len(words)] = memoryview(words)
        self._kgsl.platform.barrier()
        # An interrupt between the call and the count would lose the work.
        uninterrupted(lambda: self._start(self._block.address + 4 * start, 4 * len(words)))
        self.finish(moment)

    def _start(self, address: int, nbytes: int) -> None:
        try:
            self._stamp = self._kgsl.submit(self._context, address, nbytes)
        except KGSLError as error:
            if error.is_fault:
                self._failures.context_ended()
            raise
        self.position += 1

    def finish(self, moment: Moment) -> None:
        """Goes on with a submission that was interrupted when the driver had it."""
        self._room.used_until(moment)

    def sleep(self, milliseconds: int) -> bool:
        """Sleeps until all has ended, or for so long; whether it has.

        Raises DeviceError for a fault.
        """
        if not self._stamp:
            return True
        try:
            return self._kgsl.wait(self._context, self._stamp, milliseconds)
        except KGSLError as error:
            if error.is_fault:
                self._failures.context_ended()
            raise
