"""What machines with emulated GPUs have in common, whatever the driver; buffers of a device."""

import numpy as np

from treadle.emulate.machine.platform import EmulatedPlatform


class Machine:
    """A computer with emulated GPUs of some architectures, each launch of which is kept.

    A driver's own Machine has `prefix`, the name of its first device, and the methods
    `make_driver`, `run_dispatch`, `open_driver` (for the runtime) and `open_device`.
    """

    prefix = ""

    def __init__(self, *archs, seed=0, timeout=60.0, **options):
        self.platform, self.archs = EmulatedPlatform(seed), archs
        self.dispatches, self.timeout = [], timeout
        self.driver = self.make_driver(archs, **options)
        self._opened = None

    def execute(self, dispatch):
        self.dispatches.append(dispatch)
        self.run_dispatch(dispatch)

    @property
    def opened(self):
        """The driver as the runtime has opened it."""
        if self._opened is None:
            self._opened = self.open_driver()
        return self._opened

    def device(self, index=0):
        return self.open_device(f"{self.prefix}:{index}" if index else self.prefix, index)


def upload(device, values):
    """A buffer with these values."""
    values = np.asarray(values)
    buffer = device.allocator.alloc(values.nbytes)
    device.write(buffer, memoryview(values).cast("B"))
    return buffer


def download(device, buffer, dtype=np.int32):
    """What a buffer holds."""
    data = np.zeros(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    device.read(buffer, memoryview(data).cast("B"))
    return data
