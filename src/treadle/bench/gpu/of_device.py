"""A pytest plugin that leaves the tests of one device, the one of TEST_DEVICES.

A test is of a device that is among its parameters. Names do not tell: `test_conv` has NV in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects all others."""
    device = os.environ["TEST_DEVICES"]
    others = [item for item in items if not _is_of(item, device)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_of(item, device)]


def _is_of(item: pytest.Item, device: str) -> bool:
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return any(isinstance(value, str) and value == device for value in values)
