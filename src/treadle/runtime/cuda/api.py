"""Calls of NVIDIA's driver by cuda-bindings: results as values, failures as DriverErrors.

    api = Api(cuda.bindings.driver)
    api("cuDeviceGetCount")         -> 2

The functions of cuda-bindings return (CUresult, results...).
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from treadle.runtime.cuda.driver import DriverError
from treadle.runtime.cuda.failures import newer_error

__all__ = ["Api"]


class Api:
    """The functions of cuda.bindings.driver, by name: `api("cuMemAlloc", 4)` gives its result.

    A failure is a DriverError; so is a function that this driver is too old to have.
    """

    def __init__(self, raw: ModuleType) -> None:
        self.raw = raw

    def __call__(self, name: str, *arguments: object) -> Any:
        try:
            code, *results = getattr(self.raw, name)(*arguments)
        except RuntimeError as error:  # cuda-bindings found no such function in libcuda
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", name, str(error)) from error
        except (KeyError, ValueError) as error:  # of a number that its enumeration does not have
            number = _unknown_code(error)
            if number is None:
                raise
            raise newer_error(number, name) from error
        if code:
            raise DriverError(code.name, name)
        return results[0] if len(results) == 1 else tuple(results)


def _unknown_code(error: Exception) -> int | None:
    """The number of an error that cuda-bindings has no name for; None if it is another mistake."""
    if isinstance(error, KeyError):  # releases up to 13.0
        return error.args[0] if error.args and isinstance(error.args[0], int) else None
    found = re.fullmatch(r"(\d+) is not a valid CUresult", str(error))
    return int(found[1]) if found else None
