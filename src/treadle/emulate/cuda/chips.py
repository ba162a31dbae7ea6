"""Facts of one real chip for each architecture, as NVIDIA's data sheets and guides give them."""

from __future__ import annotations

from dataclasses import replace

from treadle.runtime.cuda.driver import DeviceFacts

__all__ = ["chip"]

_KIB, _GIB = 1 << 10, 1 << 30
_COMMON = DeviceFacts(
    name="", capability=(8, 0), memory=2 * _GIB, multiprocessors=108, most_threads=1024,
    shared=48 * _KIB, shared_optin=163 * _KIB, shared_per_multiprocessor=164 * _KIB, l2=40 << 20,
    pci="0000:00:00.0", has_pools=True, has_watchdog=True, is_emulated=True,
)  # fmt: skip


def _facts(name: str, capability: tuple[int, int], **others: int) -> DeviceFacts:
    return replace(_COMMON, name=f"emulated {name}", capability=capability, **others)


def _smaller(name: str, capability: tuple[int, int], **others: int) -> DeviceFacts:
    """A chip whose multiprocessors have 100 KiB of shared memory."""
    return _facts(
        name, capability, shared_optin=99 * _KIB, shared_per_multiprocessor=100 * _KIB, **others
    )


def _hopper_sized(name: str, capability: tuple[int, int], **others: int) -> DeviceFacts:
    """A chip whose multiprocessors have 228 KiB of shared memory."""
    return _facts(
        name, capability, shared_optin=227 * _KIB, shared_per_multiprocessor=228 * _KIB, **others
    )


_CHIPS = {
    75: _facts("NVIDIA T4", (7, 5), multiprocessors=40, shared_optin=64 * _KIB,
               shared_per_multiprocessor=64 * _KIB, l2=4 << 20),
    80: _facts("NVIDIA A100", (8, 0)),
    86: _smaller("NVIDIA GeForce RTX 3090", (8, 6), multiprocessors=82, l2=6 << 20),
    89: _smaller("NVIDIA GeForce RTX 4090", (8, 9), multiprocessors=128, l2=72 << 20),
    90: _hopper_sized("NVIDIA H100", (9, 0), multiprocessors=132, l2=50 << 20),
    100: _hopper_sized("NVIDIA B200", (10, 0), multiprocessors=148, l2=126 << 20),
    120: _smaller("NVIDIA GeForce RTX 5090", (12, 0), multiprocessors=170, l2=96 << 20),
}  # fmt: skip


def chip(arch: str) -> DeviceFacts:
    """The chip of an architecture such as `sm_80` or `sm_90a`. Raises ValueError for others."""
    number = arch.removeprefix("sm_").rstrip("af")
    if not arch.startswith("sm_") or not number.isdigit() or int(number) not in _CHIPS:
        known = ", ".join(f"sm_{number}" for number in _CHIPS)
        raise ValueError(f"no NVIDIA GPU of {arch!r} is emulated; there are {known}")
    return _CHIPS[int(number)]
