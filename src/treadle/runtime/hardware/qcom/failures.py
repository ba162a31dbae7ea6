"""What the driver says when something fails, beyond what all drivers say."""

from __future__ import annotations

import errno

from treadle.runtime.hardware.failures import Advice, DriverError, Failures

__all__ = ["ADVICE", "KGSLError", "QCOMFailures"]

ADVICE = Advice(
    "QCOM",
    "the kernel driver KGSL is not there, or the GPU is of another make",
    "sudo chmod a+rw {path}, or ask whose it is",
    "choose another device, such as DEV=CPU",
)


class KGSLError(DriverError):
    """A call of the kernel driver failed, with an `errno`."""

    @property
    def is_fault(self) -> bool:
        """Whether a fault has ended the context."""
        return self.errno in (errno.EDEADLK, errno.EDEADLOCK)

    @property
    def is_unknown(self) -> bool:
        """Whether the driver knows nothing of what was named."""
        return self.errno in (errno.EINVAL, errno.ENOENT)

    @property
    def is_no_memory(self) -> bool:
        """Whether there is nothing to use at an address."""
        return self.errno in (errno.EFAULT, errno.EINVAL)

    @property
    def is_timeout(self) -> bool:
        return self.errno == errno.ETIMEDOUT


class QCOMFailures(Failures):
    """What a context's end tells."""

    def context_ended(self) -> None:
        """A fault has ended the context. Raises DeviceError."""
        self.stop(
            "a kernel or a command stopped it, such as an access of memory that is not its own"
        )
        self.check()
