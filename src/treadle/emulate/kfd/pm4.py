"""PM4: the packets of a compute queue, for gfx9 and for gfx10 to gfx12.

SET_SH_REG fills registers, DISPATCH_DIRECT starts a kernel with what they hold. A register that a
dispatch needs and nobody wrote is a fault. So is a dispatch whose caches were not invalidated since
the queue last waited for others: it might read what they held before.

A dispatch may overlap those before it. EVENT_WRITE of CS_PARTIAL_FLUSH keeps what follows behind
what came before. RELEASE_MEM signals the end of all that came before; only where it writes the
caches back are their writes certain to be seen by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from treadle.emulate.kfd import tables
from treadle.emulate.kfd.dispatch import Dispatch, KernelFault
from treadle.emulate.kfd.queue import GPU, QueueFacts
from treadle.emulate.kfd.word_ring import Handler, WordQueue
from treadle.emulate.machine.work import After

__all__ = ["PM4Queue"]

_CS_PARTIAL_FLUSH = 7
_END_OF_PIPE = {0x14: "CACHE_FLUSH_AND_INV_TS", 0x28: "BOTTOM_OF_PIPE_TS"}
_INDEX_OF_END = 5
_LDS_UNIT = 512  # bytes that COMPUTE_PGM_RSRC2 counts local memory in
_MEMORY = (1, 2, 5)  # how packets name memory: by the GRBM, by the L2 cache, directly
_IMMEDIATE, _CLOCK = 5, 9

# What has to be invalidated before a kernel reads what others wrote, by AMD's names.
_ACQUIRES = {
    "gfx9": (
        "acquire_mem_cp_coher_cntl_tcl1_action_ena",
        "acquire_mem_cp_coher_cntl_sh_kcache_action_ena",
    ),
    "gfx10-12": ("acquire_mem_gcr_cntl_glv_inv", "acquire_mem_gcr_cntl_gl1_inv",
        "acquire_mem_gcr_cntl_glk_inv"),
}  # fmt: skip


class PM4Queue(WordQueue):
    """A compute queue."""

    kind, has_caches = "compute queue", True

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        chip = gpu.chip
        self._packets = tables.pm4(chip.family)
        self._registers = tables.registers(chip.registers, chip.bases)
        self._values: dict[str, int] = {}
        self._has_stale_caches = True
        super().__init__(gpu, facts)

    def ring(self, value: int) -> None:
        self.submit(self._written)
        self._written = value

    def begin(self, read: int) -> bool:
        # What the host wrote before a doorbell is news for the packets that this was rung for.
        is_first = super().begin(read)
        self._has_stale_caches |= is_first
        return is_first

    def report(self, read: int) -> None:
        self.gpu.space.write64(self.facts.read_pointer, read % (self.facts.ring_bytes // 4))

    def length(self, word: int) -> int:
        kind, count = word >> 30, word >> 16 & 0x3FFF
        if kind == 2 or (kind == 3 and count == 0x3FFF and self._name(word) == "nop"):
            return 1
        if kind != 3:
            raise KernelFault(f"a compute queue has no packets of type {kind}: {word:#010x}")
        return count + 2

    def _name(self, word: int) -> str | None:
        return self._packets.names.get(word >> 8 & 0xFF) if word >> 30 == 3 else "nop"

    def handler(self, word: int) -> Handler:
        name = self._name(word)
        found = getattr(self, f"_do_{name}", None)
        if found is None:
            raise KernelFault(f"PM4 opcode {word >> 8 & 0xFF:#x} ({name}) is not emulated")
        return found

    def _decoded(self, name: str, words: Sequence[int]) -> dict[str, int]:
        return self._packets.decode(name, words)

    # -- registers --------------------------------------------------------------------------------

    def _do_nop(self, words: Sequence[int]) -> None:
        pass

    def _do_set_sh_reg(self, words: Sequence[int]) -> None:
        self._set("sh", words)

    def _do_set_uconfig_reg(self, words: Sequence[int]) -> None:
        self._set("uconfig", words)

    def _set(self, kind: str, words: Sequence[int]) -> None:
        first = tables.set_reg_start(self.gpu.chip.family, kind)
        first += self._decoded(f"set_{kind}_reg", words)["offset"]
        for address, value in enumerate(words[2:], first):
            name = self._registers.names.get(address)
            if name is None:
                raise KernelFault(f"{self.gpu.chip.arch} has no register {address:#x}")
            self._values[name] = value

    def _value(self, name: str) -> int:
        if name not in self._values:
            raise KernelFault(f"a dispatch needs {name}, which nobody has written")
        return self._values[name]

    def _fields(self, name: str) -> dict[str, int]:
        return self._registers.decode(name, self._value(name))

    # -- dispatches -------------------------------------------------------------------------------

    def _do_dispatch_direct(self, words: Sequence[int]) -> None:
        chip, given = self.gpu.chip, self._decoded("dispatch_direct", words)
        how = self._registers.decode("COMPUTE_DISPATCH_INITIATOR", given["initiator"])
        if not how["compute_shader_en"]:
            raise KernelFault("a dispatch does nothing: COMPUTE_SHADER_EN is 0")
        if chip.partitions > 1:
            raise KernelFault(
                f"PM4 dispatches on {chip.arch}'s several partitions are not emulated"
            )
        if self._has_stale_caches:
            raise KernelFault("a dispatch may read stale caches: nothing was acquired before it")
        axes = [given[f"dim_{axis}"] for axis in "xyz"]
        dispatch = self._dispatch(axes, how)
        run = partial(self.gpu.execute, dispatch)
        self.work.add(run, what=f"runs the code at {dispatch.program:#x}")

    def _dispatch(self, axes: Sequence[int], how: dict[str, int]) -> Dispatch:
        chip, rsrc2 = self.gpu.chip, self._fields("COMPUTE_PGM_RSRC2")
        threads = [self._fields(f"COMPUTE_NUM_THREAD_{axis}") for axis in "XYZ"]
        sizes = [one["num_thread_full"] for one in threads]
        items = [self._items(*pair, how) for pair in zip(axes, threads, strict=True)]
        if not how["force_start_at_000"] and any(
            self._value(f"COMPUTE_START_{axis}") for axis in "XYZ"
        ):
            raise KernelFault("dispatches that begin inside of their grid are not emulated")
        if 0 in sizes:
            raise KernelFault(f"a dispatch has workgroups of {sizes} work items")
        self._value("COMPUTE_RESOURCE_LIMITS")
        program = self._value("COMPUTE_PGM_LO") | self._value("COMPUTE_PGM_HI") << 32
        scratch, wave_bytes, waves = self._scratch(bool(rsrc2["scratch_en"]))
        return Dispatch(
            chip=chip.arch,
            program=program << 8,
            rsrc1=self._value("COMPUTE_PGM_RSRC1"),
            rsrc2=self._value("COMPUTE_PGM_RSRC2"),
            rsrc3=self._value("COMPUTE_PGM_RSRC3"),
            user_sgprs=tuple(
                self._value(f"COMPUTE_USER_DATA_{i}") for i in range(rsrc2["user_sgpr"])
            ),
            workgroup=(sizes[0], sizes[1], sizes[2]),
            work_items=(items[0], items[1], items[2]),
            lds=rsrc2["lds_size"] * _LDS_UNIT,
            scratch=scratch,
            scratch_wave=wave_bytes,
            scratch_waves=waves,
            wave=32 if how.get("cs_w32_en") else 64,
            space=self.gpu.space,
        )

    def _items(self, size: int, threads: dict[str, int], how: dict[str, int]) -> int:
        if how["use_thread_dimensions"]:
            return size
        full, part = threads["num_thread_full"], threads["num_thread_partial"]
        return size * full - (full - part if how["partial_tg_en"] and part else 0)

    def _scratch(self, is_used: bool) -> tuple[int, int, int]:
        """Where the scratch memory is, the bytes of each wave, and how many have some."""
        if not is_used:
            return 0, 0, 0
        ring = self._fields("COMPUTE_TMPRING_SIZE")
        if not ring["waves"] or not ring["wavesize"]:
            raise KernelFault("a kernel uses scratch memory, and COMPUTE_TMPRING_SIZE has none")
        wave_bytes = ring["wavesize"] * self.gpu.chip.scratch_unit
        if not self.gpu.chip.has_architected_scratch:
            return 0, wave_bytes, ring["waves"]
        low = self._value("COMPUTE_DISPATCH_SCRATCH_BASE_LO")
        high = self._value("COMPUTE_DISPATCH_SCRATCH_BASE_HI")
        return (low | high << 32) << 8, wave_bytes, ring["waves"]

    # -- order and memory -------------------------------------------------------------------------

    def _do_event_write(self, words: Sequence[int]) -> None:
        event = self._decoded("event_write", words)["event_type"]
        if event != _CS_PARTIAL_FLUSH:
            raise KernelFault(f"the event {event:#x} of EVENT_WRITE is not emulated")
        if not self.gpu.drops("barrier"):
            self.work.barrier()

    def _do_acquire_mem(self, words: Sequence[int]) -> None:
        if self.gpu.drops("acquire"):
            return
        family, given = self.gpu.chip.family, self._decoded("acquire_mem", words)
        control = given["coher_cntl" if family == "gfx9" else "gcr_cntl"]
        if all(tables.field(family, name, control) for name in _ACQUIRES[family]):
            self._has_stale_caches = False
            self.work.stream.acquire()

    def _do_wait_reg_mem(self, words: Sequence[int]) -> Iterator[bool]:
        given = self._decoded("wait_reg_mem", words)
        return self._wait(given, 4, given["mask"], given["reference"])

    def _do_wait_reg_mem64(self, words: Sequence[int]) -> Iterator[bool]:
        given = self._decoded("wait_reg_mem64", words)
        mask = given["mask_lo"] | given["mask_hi"] << 32
        return self._wait(given, 8, mask, given["reference_lo"] | given["reference_hi"] << 32)

    def _wait(
        self, given: dict[str, int], nbytes: int, mask: int, reference: int
    ) -> Iterator[bool]:
        if given["mem_space"] != 1 or given["operation"]:
            raise KernelFault("waits for registers are not emulated")
        yield from self.until(_address(given), nbytes, mask, reference, given["function"])
        self._has_stale_caches = True

    def _do_write_data(self, words: Sequence[int]) -> None:
        given = self._decoded("write_data", words)
        if given["dst_sel"] not in _MEMORY:
            raise KernelFault(f"WRITE_DATA to {given['dst_sel']} is not emulated")
        data = b"".join(word.to_bytes(4, "little") for word in words[4:])
        self.gpu.space.write(_address(given), data)

    def _do_copy_data(self, words: Sequence[int]) -> None:
        given = self._decoded("copy_data", words)
        nbytes, kind = 8 if given["count_sel"] else 4, given["src_sel"]
        source = given["src_lo"] | given["src_hi"] << 32
        if given["dst_sel"] not in _MEMORY or kind not in (*_MEMORY, _CLOCK):
            raise KernelFault(f"COPY_DATA from {kind} to {given['dst_sel']} is not emulated")
        if kind == _CLOCK:
            value = self.gpu.clock()
        elif kind == _IMMEDIATE:
            value = source
        else:
            value = int.from_bytes(self.gpu.space.read(source, nbytes), "little")
        data = (value & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little")
        self.gpu.space.write(given["dst_lo"] | given["dst_hi"] << 32, data)

    def _do_release_mem(self, words: Sequence[int]) -> None:
        given = self._decoded("release_mem", words)
        if given["event_type"] not in _END_OF_PIPE or given["event_index"] != _INDEX_OF_END:
            raise KernelFault(f"RELEASE_MEM of event {given['event_type']:#x} is not emulated")
        if self.gpu.drops("signal"):
            return
        is_covered = self._writes_back(given, words[1]) and not self.gpu.drops("release")
        after = After.ALL if is_covered else After.NOTHING
        self.work.add(partial(self._signal, given), after, is_urgent=True)

    def _writes_back(self, given: dict[str, int], word: int) -> bool:
        if self.gpu.chip.family == "gfx9":
            return bool(given["tc_wb_action_ena"])
        return bool(tables.field("gfx10-12", "release_mem_gcr_gl2_wb", word))

    def _signal(self, given: dict[str, int]) -> None:
        address, data = _address(given), given["data_lo"] | given["data_hi"] << 32
        match given["data_sel"]:
            case 1:
                self.signal(address, 4, data)
            case 2:
                self.signal(address, 8, data)
            case 3:
                self.signal(address, 8, self.gpu.clock())
            case 0:
                pass
            case other:
                raise KernelFault(f"RELEASE_MEM of data {other} is not emulated")
        if given["int_sel"] in (1, 2):
            self.gpu.interrupt(given["int_ctxid"])

    def _do_indirect_buffer(self, words: Sequence[int]) -> Iterator[bool]:
        given = self._decoded("indirect_buffer", words)
        if not given["valid"] or given["chain"]:
            raise KernelFault("indirect buffers that are chained, or not valid, are not emulated")
        address = given["ib_base_lo"] << 2 | given["ib_base_hi"] << 32
        return self.do_all(self.words(address, given["ib_size"]))


def _address(given: dict[str, int]) -> int:
    """The address of a packet whose low bits are not in the field."""
    return given["addr_lo"] << 2 | given["addr_hi"] << 32
