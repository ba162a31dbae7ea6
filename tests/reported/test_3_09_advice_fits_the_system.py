"""What is advised can be done on this system, and what is listed can be chosen."""

import sys

import pytest

from treadle.errors import SettingError
from treadle.runtime.webgpu import adapter
from treadle.target import parse_target


@pytest.mark.parametrize(
    ("system", "backend", "said"),
    [
        ("linux", "Metal", "WEBGPU_BACKEND=Metal is of other systems: here are Vulkan"),
        ("darwin", "Vulkan", "WEBGPU_BACKEND=Vulkan is of other systems: here are Metal"),
        ("win32", "", "install the newest driver of your GPU"),
    ],
)
def test_3_09_a_backend_of_another_system_is_named(system, backend, said, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    assert said in adapter._advice(adapter.backend_type(backend))


@pytest.mark.parametrize(
    ("apt", "said"), [("/usr/bin/apt-get", "apt-get install"), (None, "your system")]
)
def test_3_09_linux_without_apt_is_not_told_to_use_it(apt, said, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(adapter.shutil, "which", lambda name: apt)
    advice = adapter._advice(0)
    assert said in advice
    assert ("apt-get" in advice) == (apt is not None)


def test_3_09_processors_do_not_list_gpus():
    with pytest.raises(SettingError, match=r"known: native, .*x86_64,znver4") as found:
        parse_target("znver9")
    assert "sm_" not in str(found.value)
