"""What a device behind a driver says of itself once it is lost, or in a forked child."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from treadle.errors import DeviceError
from treadle.runtime.presence import Presence


def test_a_lost_device_stays_lost_and_says_why():
    presence = Presence("SOME:1", "Somebody's driver")
    presence.check()
    told = presence.lose("unplugged")
    assert told.startswith("SOME:1: the device was lost (unplugged)")
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            presence.check()
        assert str(caught.value) == told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_no_device_of_its_parents_which_finishes_first():
    code = """
import os
from treadle.errors import DeviceError
from treadle.runtime.presence import Presence, finish_first

class Device:
    def synchronize(self):
        print("finished", flush=True)

device, presence = Device(), Presence("SOME", "Somebody's driver")
finish_first(device, also_before_forks=True)
if os.fork() == 0:
    try:
        presence.check()
    except DeviceError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
presence.check()
print("parent", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    finished, refused, *rest = done.stdout.splitlines()
    assert refused.startswith("SOME was opened before this process was forked")
    assert "Somebody's driver does not survive that" in refused
    assert [finished, *rest] == ["finished", "parent", "finished"]
