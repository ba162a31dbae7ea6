"""Which instructions use what a load may not have brought yet, since no wait covers it.

    unwaited(blocks, 11)  ->  {0x1040: "v3, which global_load_b32 at 0x1010 loads"}

Loads are counted. A wait for N of a counter ends when N operations are left under way: older ones
have landed, if all of them end in order. Here it is followed along all ways through the code what
may be under way where, as compilers do that put the waits in. So the instructions here, where data
land at once, need not take turns with waits.

A register that a load is to set must be neither read nor set before. Not seen are waits for stores,
for registers that an instruction names by no field (VCC), and for shared memory by flat loads.
Barriers ask for stores to shared memory that began in their own basic block: ROCm's code has some
behind stores that have not ended on one of several ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.amd.names import canonical
from treadle.emulate.amd.operands import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treadle.emulate.amd.decode import Instruction
    from treadle.emulate.amd.operands import Operand

__all__ = ["Block", "unwaited"]

_OLDEST = 64  # operations that are as old as any wait can tell
_VECTOR, _LOCAL, _SCALAR = "vector", "local", "scalar"  # counters; before gfx12 two are one
_UNORDERED = "scalar memory"
_STORES = "stores"  # to shared memory: they count, and set no register
_BARRIERS = ("s_barrier", "s_barrier_signal")


class _Way(NamedTuple):
    """What is under way: by which counter, of which kind, and what it sets, if anything."""

    counter: str
    kind: str
    sets: str


@dataclass
class Block:
    """Instructions with their addresses, and the blocks that may follow."""

    items: Sequence[tuple[int, Instruction]]
    following: Sequence[int]


@dataclass
class _State:
    """How many operations came after each that may be under way, and where it is."""

    ages: dict[_Way, int] = field(default_factory=dict)
    places: dict[_Way, str] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.ages), dict(self.places))

    def join(self, other: _State) -> bool:
        """Adds what may be under way on another way here; tells whether that changed anything."""
        changed = False
        for way, age in other.ages.items():
            if age < self.ages.get(way, _OLDEST + 1):
                self.ages[way], self.places[way] = age, other.places[way]
                changed = True
        return changed

    def start(self, counter: str, kind: str, sets: Sequence[str], place: str) -> None:
        """An operation begins."""
        for way, age in self.ages.items():
            if way.counter == counter:
                self.ages[way] = min(age + 1, _OLDEST)
        for name in sets or ("",):
            way = _Way(counter, kind, name)
            self.ages[way], self.places[way] = 0, place

    def wait(self, counter: str, left: int) -> None:
        """Ends when so many are left."""
        mine = [way for way in self.ages if way.counter == counter]
        kinds = {way.kind for way in mine}
        if left and (len(kinds) > 1 or _UNORDERED in kinds):
            return
        for way in mine:
            if self.ages[way] >= left:
                del self.ages[way], self.places[way]

    def under_way(self, names: set[str], but: tuple[str, str] | None = None) -> str:
        """Words for one of these registers that is to be set, or nothing.

        What a load of counter and kind `but` sets lands before it.
        """
        for way, place in self.places.items():
            if way.sets in names and (way.counter, way.kind) != but:
                return f"{way.sets}, which {place} sets"
        return ""

    def stores_at_barrier(self, item: Instruction) -> str:
        """Words for what a barrier does not wait for, if it is one, or nothing."""
        if item.operation not in _BARRIERS:
            return ""
        for way, place in self.places.items():
            if way.sets == _STORES:
                return f"shared memory, which {place} sets"
        return ""


def unwaited(blocks: Mapping[int, Block], first: int, generation: int) -> dict[int, str]:
    """Addresses of instructions, and words for what they do too early. `first` is the entry."""
    states = {first: _State()}
    found: dict[int, str] = {}
    left = [first]
    while left:
        start = left.pop()
        block, state, own = blocks[start], states[start].copy(), _State()
        for address, item in block.items:
            why = own.stores_at_barrier(item) or _step(state, address, item, generation)
            _step(own, address, item, generation)
            if why:
                found.setdefault(address, why)
        for target in block.following:
            known = states.get(target)
            if known is None:
                states[target] = state.copy()
            if known is None or known.join(state):
                left.append(target)
    return found


def _step(state: _State, address: int, item: Instruction, generation: int) -> str:
    """What an instruction does to a state, and words for what it does too early."""
    name = canonical(item.operation)
    if name.startswith("s_wait"):
        for counter, count in _waits(name, item.modifiers.get("simm16", 0) & 0xFFFF, generation):
            state.wait(counter, count)
        return ""
    results = item.results
    read = {r for key, of in item.operands.items() if key not in results for r in _names(of)}
    sets = {r for key in results for r in _names(item.operands[key])}
    counted = list(_counted(name, item, generation))
    same = counted[0] if counted and counted[0][1] != _UNORDERED else None
    why = state.under_way(read) or state.under_way(sets, same)
    place = f"{item.mnemonic} at {address:#x}"
    for number, (counter, kind) in enumerate(counted):
        mine = sorted(sets) if not number else []
        if kind == "shared memory" and not mine:
            mine = [_STORES]
        state.start(counter, kind, mine, place)
    return why


def _names(of: Operand) -> Iterator[str]:
    """The registers of an operand."""
    if of.kind in (Kind.SGPR, Kind.VGPR, Kind.AGPR):
        for part in range(of.count):
            yield f"{of.kind.value}{of.index + part}"
    elif of.kind is Kind.SPECIAL:
        yield of.name


def _counted(name: str, item: Instruction, generation: int) -> Iterator[tuple[str, str]]:
    """Counters that an instruction counts in, and as what kind: that of its result first."""
    local = _LOCAL if generation >= 12 else _SCALAR
    if name.startswith(("s_load", "s_buffer_load", "s_memtime", "s_memrealtime", "s_sendmsg")):
        yield _SCALAR, _UNORDERED
    elif name.startswith("ds_"):
        yield local, "shared memory"
    elif name.startswith(("global_", "buffer_", "scratch_", "flat_", "image_", "tbuffer_")):
        flat = name.startswith("flat_")
        if generation == 9 or not _only_stores(name, item):
            yield _VECTOR, "flat memory" if flat else "memory"
        if flat:
            yield local, "flat memory"


def _only_stores(name: str, item: Instruction) -> bool:
    """Whether an instruction is counted with stores, of which nothing is known here."""
    return "_store" in name or ("_atomic" in name and not item.results)


def _waits(name: str, number: int, generation: int) -> Iterator[tuple[str, int]]:
    """Which counters a wait waits for, and how many operations may be left."""
    if name == "s_waitcnt":
        if generation >= 11:
            yield _VECTOR, number >> 10
            yield _SCALAR, number >> 4 & 63
            return
        yield _VECTOR, number & 15 | number >> 14 << 4
        yield _SCALAR, number >> 8 & (15 if generation == 9 else 63)
        return
    both = name.endswith("cnt_dscnt")
    if name in ("s_waitcnt_vmcnt", "s_wait_loadcnt", "s_wait_loadcnt_dscnt"):
        yield _VECTOR, number >> 8 & 63 if both else number
    if name in ("s_waitcnt_lgkmcnt", "s_wait_kmcnt"):
        yield _SCALAR, number
    if both or name == "s_wait_dscnt":
        yield _LOCAL, number & 63
    if name == "s_wait_idle":
        yield from ((counter, 0) for counter in (_VECTOR, _LOCAL, _SCALAR))
