"""PoCL is told how to make workgroups, and the name of a processor that it is too old to know."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest

from treadle.errors import DeviceError
from treadle.runtime.cl import find_devices, platforms
from treadle.runtime.cl.pocl import KNOWN, METHOD, choose_method, name_processor

UNKNOWN = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"


def device(version, name=b"generic\0", words=()):
    """A stand-in for a device whose structure points to `name`, behind other `words`."""
    held = ctypes.create_string_buffer(name, 8)
    structure = ctypes.create_string_buffer(4096)
    content = struct.pack(f"{len(words) + 1}N", *words, ctypes.addressof(held))
    ctypes.memmove(structure, content, len(content))
    handle = SimpleNamespace(version=version, int_ptr=ctypes.addressof(structure), keep=structure)
    return handle, held


def test_an_unknown_processor_gets_a_name_that_is_known():
    handle, held = device(UNKNOWN, words=(0, 7, 1 << 46, (1 << 64) - 1))  # no addresses
    version = name_processor(handle)
    assert version.removeprefix(UNKNOWN.removesuffix("generic")) in KNOWN.values()
    assert version.endswith(f"-{held.value.decode()}")
    assert name_processor(handle) == version  # a second look finds what the first has written


def test_other_names_stay_as_they_are():
    handle, held = device(UNKNOWN, name=b"generix\0")
    assert name_processor(handle) == UNKNOWN
    assert held.value == b"generix"
    for version in (UNKNOWN.replace("generic", "znver3"), "OpenCL 3.0 generic"):
        handle, held = device(version)
        assert name_processor(handle) == version
        assert held.value == b"generic"


def test_a_processor_that_stays_unknown_is_not_offered(monkeypatch):
    try:
        (first, *_) = find_devices()
    except DeviceError as error:
        pytest.skip(str(error))
    unknown = replace(first, driver=f"3.0, {UNKNOWN}")
    monkeypatch.setattr(platforms, "_facts", lambda *_: unknown)
    with pytest.raises(DeviceError, match="is too old to know this processor"):
        platforms.find_devices.__wrapped__()


def test_work_items_are_a_plain_loop_but_for_a_user_who_chose_otherwise(monkeypatch):
    monkeypatch.delenv(METHOD, raising=False)
    choose_method()
    assert os.environ[METHOD] == "loops"
    monkeypatch.setenv(METHOD, "repl")
    choose_method()
    assert os.environ[METHOD] == "repl"
