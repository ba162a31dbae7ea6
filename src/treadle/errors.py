"""The exception tree. Users meet `UserError`; an `InternalError` is always a bug in treadle.

TreadleError
├── UserError            something in the program or the environment that its author can mend
│   ├── ShapeError       shapes or axes do not fit (also a ValueError)
│   ├── DTypeError       element types do not fit (also a TypeError)
│   ├── ArgumentError    an argument is of no kind or value that is taken (also a TypeError and a
│   │                     ValueError)
│   ├── SubscriptError   what stands in x[...] is no subscript of that shape (also an IndexError, a
│   │                     ShapeError, a DTypeError and an ArgumentError)
│   ├── IndexOutOfRange  an index known on the host lies outside its axis (also an IndexError)
│   ├── LinAlgError      a matrix has no such decomposition or inverse (also a ValueError)
│   ├── NonFiniteError   a result holds NaN or infinities (also a FloatingPointError); CHECK_NAN
│   ├── SettingError     an environment variable or `Context` value is wrong
│   ├── DeviceError      a device or compiler is missing, busy or refuses
│   │   └── StaleCodeError   a driver refuses cached code; it is compiled anew by itself
│   ├── OutOfMemory      an allocation failed (also a MemoryError)
│   ├── ExchangeError    memory cannot be shared with another library (also a BufferError)
│   │   └── CopyError    a copy is needed where copy=False forbids it (also a ValueError)
│   ├── DistributedError  processes of a group disagree, or one of them is gone
│   └── JitError         a captured function cannot be replayed faithfully
└── InternalError        a broken invariant: please report it
    └── KernelMismatch   a kernel computes something else than its graph; CHECK_KERNELS
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CopyError",
    "DTypeError",
    "DeviceError",
    "DistributedError",
    "ExchangeError",
    "IndexOutOfRange",
    "InternalError",
    "JitError",
    "KernelMismatch",
    "LinAlgError",
    "NoGradientWarning",
    "NonFiniteError",
    "OutOfMemory",
    "SettingError",
    "ShapeError",
    "StaleCodeError",
    "SubscriptError",
    "TreadleError",
    "UnsafeBlobWarning",
    "UserError",
]


class TreadleError(Exception):
    """Base of every exception that treadle raises on purpose."""


class UserError(TreadleError):
    """A mistake in the program or its environment, with what to do about it."""


class ShapeError(UserError, ValueError):
    """Shapes, axes or sizes do not fit the operation."""


class DTypeError(UserError, TypeError):
    """Element types do not fit the operation."""


class ArgumentError(UserError, TypeError, ValueError):
    """An argument is not of the kind, or not of a value, that the operation takes."""


class SubscriptError(ShapeError, DTypeError, ArgumentError, IndexError):
    """What stands in `x[...]` is no subscript of a tensor of this shape."""


class IndexOutOfRange(UserError, IndexError):
    """An index that is known on the host, or checked by CHECK_INDEX, lies outside its axis."""


class NonFiniteError(UserError, FloatingPointError):
    """Under CHECK_NAN, a result holds NaN or infinities."""


class LinAlgError(UserError, ValueError):
    """A matrix has no such decomposition or inverse; raised when it is computed.

    What is raised is a `numpy.linalg.LinAlgError`, too.
    """


class SettingError(UserError, ValueError):
    """A setting has a value that it cannot have, or contradicts another."""


class DeviceError(UserError, RuntimeError):
    """A device, driver or compiler is missing or refuses to work."""


class StaleCodeError(DeviceError):
    """A driver refuses code that it built earlier: compiling the source anew mends it."""


class DistributedError(UserError, RuntimeError):
    """Processes of a group disagree about a call, one of them is gone, or there is no launcher."""


class OutOfMemory(DeviceError, MemoryError):
    """A device has no memory left for an allocation."""


class ExchangeError(UserError, BufferError):
    """Memory cannot be handed to, or taken from, another library as it was asked for."""


class CopyError(ExchangeError, ValueError):
    """What was asked for takes a copy, which `copy=False` forbids."""


class JitError(UserError, RuntimeError):
    """A captured function cannot be replayed with the same meaning."""


class InternalError(TreadleError, AssertionError):
    """An invariant of treadle itself is broken."""


class KernelMismatch(InternalError):
    """Under CHECK_KERNELS, a kernel has stored something else than its graph says."""


class UnsafeBlobWarning(UserWarning):
    """Memory of somebody else is used, and nothing keeps it alive."""


class NoGradientWarning(UserWarning):
    """A backward pass reaches no tensor that requires gradients: it has no effect."""
