"""A kernel in a GPU's memory: what its descriptor says, and what it wants at the start."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.runtime.hardware.amd.abi import KERNEL_DESCRIPTOR

__all__ = ["Kernel", "Wanted"]

_IS_WAVE32 = 1 << 10
_SCRATCH_EN = 1


class Wanted:
    """Scalar registers that a descriptor asks for, in their order: the bit, and how many words."""

    SCRATCH_DESCRIPTOR = (0, 4)
    DISPATCH_PACKET = (1, 2)
    QUEUE = (2, 2)
    KERNARG = (3, 2)
    DISPATCH_ID = (4, 2)
    FLAT_SCRATCH = (5, 2)
    PRIVATE_SIZE = (6, 1)
    ALL = (
        SCRATCH_DESCRIPTOR, DISPATCH_PACKET, QUEUE, KERNARG, DISPATCH_ID, FLAT_SCRATCH,
        PRIVATE_SIZE,
    )  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """A loaded kernel. `descriptor` and `entry` are addresses; sizes are in bytes.

    `private_bytes` are those of one work item.
    """

    name: str
    descriptor: int
    entry: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    group_bytes: int
    private_bytes: int
    kernarg_bytes: int
    properties: int

    @classmethod
    def from_descriptor(cls, name: str, address: int, block: bytes) -> Kernel:
        """The kernel whose descriptor is at an address, with the 64 bytes that are there."""
        given = KERNEL_DESCRIPTOR.unpack(block)
        return cls(
            name=name,
            descriptor=address,
            entry=address + given["kernel_code_entry_byte_offset"],
            rsrc1=given["compute_pgm_rsrc1"],
            rsrc2=given["compute_pgm_rsrc2"],
            rsrc3=given["compute_pgm_rsrc3"],
            group_bytes=given["group_segment_fixed_size"],
            private_bytes=given["private_segment_fixed_size"],
            kernarg_bytes=given["kernarg_size"],
            properties=given["kernel_code_properties"],
        )

    @property
    def is_wave32(self) -> bool:
        return bool(self.properties & _IS_WAVE32)

    @property
    def uses_scratch(self) -> bool:
        return bool(self.rsrc2 & _SCRATCH_EN)

    @property
    def user_words(self) -> int:
        """How many scalar registers are set at the start."""
        return self.rsrc2 >> 1 & 31

    def wants(self, what: tuple[int, int]) -> bool:
        """Whether it asks for some of them."""
        return bool(self.properties >> what[0] & 1)
