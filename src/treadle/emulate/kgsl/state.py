"""What the packets of one submission have set so far: registers, constants, the program's place.

    state = State(chip)
    state.write(0xB990, 0xFD)
    dispatch = state.dispatch(space, groups=(4, 1, 1))

A register that a dispatch needs and that the submission has not written is a fault: what is in it
is whatever others left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.kgsl import tables
from treadle.emulate.kgsl.dispatch import Dim, Dispatch
from treadle.emulate.kgsl.faults import KernelFault
from treadle.emulate.kgsl.images import DESCRIPTOR_WORDS, Image, image_of
from treadle.emulate.machine.memory import Permission

if TYPE_CHECKING:
    from treadle.emulate.kgsl.chips import Chip
    from treadle.emulate.machine.memory import AddressSpace

__all__ = ["State"]

_NO_REGISTER = 0xFC  # r63.x
_MOST_ITEMS = 1024  # of a workgroup
_UNLOADED = 0xFFFFFFFF
_SHARED = 48 * 4  # the first register that lanes share


@dataclass(frozen=True)
class _Load:
    """Constants from a number of a component on: words, or so many from an address."""

    first: int
    words: tuple[int, ...]
    address: int = 0
    count: int = 0


class State:
    """The state of the command processor for compute."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._values: dict[str, int] = {}
        self._loads: list[_Load] = []
        self._loaded_program: int | None = None
        self._descriptors: dict[str, tuple[int, int]] = {}  # an address, and how many

    def copy(self) -> State:
        """The same, which later packets do not change."""
        made = State(self._chip)
        made._values, made._loads = {**self._values}, [*self._loads]
        made._loaded_program, made._descriptors = self._loaded_program, {**self._descriptors}
        return made

    # -- what packets set

    def write(self, address: int, value: int) -> None:
        """A packet of type 4."""
        name = tables.register(address)
        if name is None:
            raise KernelFault(f"{self._chip.name} has no register {address:#x}")
        self._values[name] = value
        if name == "HLSQ_INVALIDATE_CMD" and tables.fields(name, value)["CS_STATE"]:
            self._loads.clear()
            self._descriptors.clear()
            self._loaded_program = None

    def read(self, address: int) -> int:
        """A register's value, as packets that copy registers see it."""
        name = tables.register(address)
        if name is None:
            raise KernelFault(f"{self._chip.name} has no register {address:#x}")
        return self._value(name)

    def load(self, words: Sequence[int]) -> None:
        """CP_LOAD_STATE6: constants, or the program."""
        given = tables.packet("CP_LOAD_STATE6", words)
        address = given["EXT_SRC_ADDR"] | given["EXT_SRC_ADDR_HI"] << 32
        block, kind = given["STATE_BLOCK"], given["STATE_TYPE"]
        source, units = given["STATE_SRC"], given["NUM_UNIT"]
        if (block, kind) in _DESCRIPTORS and source == _INDIRECT and not given["DST_OFF"]:
            self._descriptors[_DESCRIPTORS[block, kind]] = address, units
        elif block != _CS_SHADER:
            raise KernelFault(f"state of block {block}, type {kind} is not emulated")
        elif kind == _SHADER and source == _INDIRECT:
            self._loaded_program = address
        elif kind == _CONSTANTS and source == _INDIRECT:
            self._loads.append(_Load(4 * given["DST_OFF"], (), address, 4 * units))
        elif kind == _CONSTANTS and source == _DIRECT:
            if len(words) != 3 + 4 * units:
                raise KernelFault(f"{len(words) - 3} words for {units} constants of four")
            self._loads.append(_Load(4 * given["DST_OFF"], tuple(words[3:])))
        else:
            raise KernelFault(f"state of type {kind} from source {source} is not emulated")

    # -- what a dispatch needs

    def _value(self, name: str) -> int:
        if name not in self._values:
            raise KernelFault(f"{name} is needed, which this submission has not written")
        return self._values[name]

    def _fields(self, name: str) -> dict[str, int]:
        return tables.fields(name, self._value(name))

    def _long(self, name: str) -> int:
        return self._value(name) | self._value(f"{name}_HI") << 32

    @property
    def program(self) -> int:
        """Where the code is that was loaded last; 0 where none was."""
        return self._loaded_program or 0

    def groups(self) -> Dim:
        """How many workgroups registers ask for."""
        x, y, z = (self._value(f"HLSQ_CS_KERNEL_GROUP_{axis}") for axis in "XYZ")
        return x, y, z

    def dispatch(self, space: AddressSpace, groups: Dim) -> Dispatch:
        """The launch of so many workgroups. Raises KernelFault for what does not fit together."""
        control, ids = self._fields("SP_CS_CTRL_REG0"), self._fields("HLSQ_CS_CNTL_0")
        program = self._long("SP_CS_OBJ_START")
        self._check_modes(control, program)
        wave = 128 if control["THREADSIZE"] else 64
        if wave not in self._chip.waves:
            raise KernelFault(f"{self._chip.name} has no waves of {wave} work items")
        if bool(control["THREADSIZE"]) != bool(self._fields("HLSQ_CS_CNTL_1")["THREADSIZE"]):
            raise KernelFault("SP_CS_CTRL_REG0 and HLSQ_CS_CNTL_1 have different widths of waves")
        workgroup = self._workgroup(groups)
        constants = self._fields("HLSQ_CS_CNTL")
        if not constants["ENABLED"]:
            raise KernelFault("HLSQ_CS_CNTL does not enable the kernel")
        shared = self._fields("SP_CS_CTRL_REG1")["SHARED_SIZE"]
        return Dispatch(
            self._chip, program, 16 * self._fields("SP_CS_INSTRLEN")[""], wave, groups, workgroup,
            _register(ids["WGIDCONSTID"], is_shared=True), _register(ids["LOCALIDREGID"]),
            control["FULLREGFOOTPRINT"], (shared + 1 if shared else 32) << 10,
            self._private(space), self._constants(space, 4 * constants["CONSTLEN"]),
            self._images(space, "textures"), self._fields("SP_CS_CONFIG")["NSAMP"],
            self._images(space, "images"),
            bool(self._fields("SP_MODE_CONTROL")["CONSTANT_DEMOTION_ENABLE"]), space,
        )  # fmt: skip

    def _check_modes(self, control: dict[str, int], program: int) -> None:
        if not control["MERGEDREGS"]:
            raise KernelFault("half registers beside the full ones are not emulated")
        if control["EARLYPREAMBLE"]:
            raise KernelFault("a preamble that runs early is not emulated")
        if not self._fields("SP_CS_CONFIG")["ENABLED"]:
            raise KernelFault("SP_CS_CONFIG does not enable the kernel")
        if program % 32 or self._loaded_program != program:
            raise KernelFault(f"the program at {program:#x} is not the one that was loaded")

    def _workgroup(self, groups: Dim) -> Dim:
        """The work items of a workgroup, along each axis."""
        size = self._fields("HLSQ_CS_NDRANGE_0")
        x, y, z = (size[f"LOCALSIZE{axis}"] + 1 for axis in "XYZ")
        for number, (axis, local, count) in enumerate(zip("XYZ", (x, y, z), groups, strict=True)):
            whole = self._fields(f"HLSQ_CS_NDRANGE_{2 * number + 1}")[f"GLOBALSIZE_{axis}"]
            if whole != local * count:
                raise KernelFault(
                    f"{whole} work items along {axis} in {count} workgroups of {local}: smaller "
                    "last workgroups are not emulated"
                )
            if self._fields(f"HLSQ_CS_NDRANGE_{2 * number + 2}")[f"GLOBALOFF_{axis}"]:
                raise KernelFault("work items that do not begin with 0 are not emulated")
        if x * y * z > _MOST_ITEMS:
            raise KernelFault(f"a workgroup of {x * y * z} work items; {_MOST_ITEMS} are the most")
        return x, y, z

    def _private(self, space: AddressSpace) -> int:
        """Bytes of a work item's own memory, for which there has to be memory of the GPU's."""
        if "SP_CS_PVT_MEM_PARAM" not in self._values:
            return 0
        nbytes = self._fields("SP_CS_PVT_MEM_PARAM")["MEMSIZEPERITEM"]
        if nbytes:
            total = self._fields("SP_CS_PVT_MEM_SIZE")["TOTALPVTMEMSIZE"]
            address = self._long("SP_CS_PVT_MEM_ADDR")
            if total < nbytes or address + total > space.find(address, Permission.WRITE).end:
                raise KernelFault(f"{total} bytes at {address:#x} for the work items' own memory")
        return nbytes

    def _images(self, space: AddressSpace, kind: str) -> tuple[Image, ...]:
        """The images whose descriptors were loaded, as many as the kernel is to have."""
        count = self._fields("SP_CS_CONFIG")["NTEX" if kind == "textures" else "NIBO"]
        address, loaded = self._descriptors.get(kind, (0, 0))
        if count > loaded:
            raise KernelFault(f"{count} {kind} are announced, and {loaded} loaded")
        samplers = self._fields("SP_CS_CONFIG")["NSAMP"]
        if kind == "textures" and not samplers <= self._descriptors.get("samplers", (0, 0))[1]:
            raise KernelFault(f"{samplers} samplers are announced, and fewer loaded")
        if kind == "textures" and count and not samplers:
            raise KernelFault(f"{count} textures and no sampler")
        step, is_texture = 4 * DESCRIPTOR_WORDS, kind == "textures"
        return tuple(
            image_of(memoryview(space.read(address + step * n, step)).cast("I"), is_texture)
            for n in range(count)
        )

    def _constants(self, space: AddressSpace, count: int) -> tuple[int, ...]:
        """So many constants; those that nobody has loaded are anything."""
        found = [_UNLOADED] * count
        for load in self._loads:
            words = load.words or tuple(
                memoryview(space.read(load.address, 4 * load.count)).cast("I")
            )
            if load.first + len(words) > count:
                raise KernelFault(
                    f"constants up to {load.first + len(words)} are loaded, and there are {count}"
                )
            found[load.first : load.first + len(words)] = words
        return tuple(found)


_CS_TEXTURES, _CS_SHADER = 5, 13
_SHADER, _CONSTANTS, _IMAGES = 0, 1, 3
# By block and type of state.
_DESCRIPTORS = {
    (_CS_TEXTURES, _SHADER): "samplers", (_CS_TEXTURES, _CONSTANTS): "textures",
    (_CS_SHADER, _IMAGES): "images",
}  # fmt: skip
_DIRECT, _INDIRECT = 0, 2


def _register(number: int, is_shared: bool = False) -> int | None:
    """A register by components; the numbers of a workgroup are in one that lanes share."""
    if number == _NO_REGISTER:
        return None
    if is_shared and not _SHARED <= number < _SHARED + 30:
        raise KernelFault(f"the numbers of a workgroup in r{number // 4}, which lanes do not share")
    return number
