"""The reference implementation of the standard, and treadle on the interpreter.

What is tested here is what the namespace makes of its arguments: the graphs that it builds. On the
interpreter that costs no compiler. That kernels compute the same is tested with the operations.
"""

from __future__ import annotations

import pytest

from treadle import Device


@pytest.fixture(scope="session")
def strict():
    """array-api-strict, of the version of the standard that treadle follows."""
    module = pytest.importorskip(
        "array_api_strict", reason="the reference of the Array API: pip install array-api-strict"
    )
    module.set_array_api_strict_flags(api_version="2024.12")
    return module


@pytest.fixture
def on_the_interpreter():
    """Tensors are made on REF where no device is named."""
    before = Device.DEFAULT
    Device.DEFAULT = "REF"
    yield
    Device.DEFAULT = before
