"""What the namespace can do: capabilities, devices, dtypes and which of them are the defaults."""

from __future__ import annotations

from ..backends import backend_of
from ..dtype import DType, complex_of, dtypes
from ..engine.devices import Device
from ..engine.inventory import inventory
from ..errors import DTypeError
from .data_types import isdtype

__all__ = ["VERSION", "VERSIONS", "Info"]

VERSION = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION)  # each contains the ones before it

# The standard's dtypes, by its names for them, which are treadle's, too.
_DTYPES = (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
    dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64,
    dtypes.complex64, dtypes.complex128,
)  # fmt: skip


class Info:
    """`__array_namespace_info__()`: plain data, by the standard's names for it."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Masks are indices, values may decide shapes, and axes are as many as one likes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of tensors for which none is named."""
        return Device.DEFAULT

    def devices(self) -> list[str]:
        """The devices that compute here, the default one first. Looks for all of them."""
        usable = [
            row.runtime for row in inventory() if row.usable and backend_of(row.runtime).computes
        ]
        return list(dict.fromkeys((self.default_device(), *usable)))

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """What Python numbers become, and the dtype of places and counts; alike on all devices."""
        return {
            "real floating": dtypes.default_float,
            "complex floating": complex_of(dtypes.default_float),
            "integral": dtypes.default_int,
            "indexing": dtypes.int32,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes, by name, that a device computes in; of a kind as for `isdtype`.

        Raises DTypeError for a kind that there is not, DeviceError for such a device.
        """
        if kind is not None and not isinstance(kind, (str, tuple)):
            raise DTypeError(f"[dtypes] a kind is a name or a tuple of names, not {kind!r}")
        target = Device[Device.canonicalize(device)].target
        return {
            dtype.name: dtype
            for dtype in _DTYPES
            if target.supports(dtype.real) and (kind is None or isdtype(dtype, kind))
        }
