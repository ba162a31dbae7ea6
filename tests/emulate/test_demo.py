"""`treadle demo` on emulated GPUs, on a part of its digits: it learns what the processor learns."""

from __future__ import annotations

import re

import pytest

from treadle import Device, Tensor, nn
from treadle.backends.metal import METAL
from treadle.backends.nv import NV
from treadle.demo import run
from treadle.errors import DeviceError

DEVICES = [name for one in (NV, METAL) for names in one.tested_devices.values() for name in names]
digits = nn.datasets.digits


def few(device: str | None = None) -> tuple[Tensor, ...]:
    """128 digits to learn from, and 64 to judge by."""
    train_x, train_y, test_x, test_y = digits(device)
    return train_x[:128], train_y[:128], test_x[:64], test_y[:64]


def accuracy(capsys: pytest.CaptureFixture[str], device: str) -> float:
    run(device, 6, 0)
    found = re.search(r"accuracy +([\d.]+)%", capsys.readouterr().out)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("device", DEVICES)
def test_the_demo_learns_what_the_processor_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    pytest.importorskip("sklearn")
    try:
        Device[device].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(nn.datasets, "digits", few)
    found, expected = accuracy(capsys, device), accuracy(capsys, "CPU")
    assert expected > 50
    assert abs(found - expected) <= 100 / 64  # one digit, which two numbers may be equal for
