"""A function's basic blocks in an order, with what is live between them.

    flow = flow_of(function)
    flow.blocks[0].items, flow.blocks[0].live_out

A block's number is the program counter of the threads that are at its start, and the least counter
runs first. So a block comes before what it leads to, and all of a loop before what follows it:
threads that parted meet again where their ways do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.air.syntax import AIRError, Local
from treadle.emulate.simt.liveness import live_values, members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treadle.emulate.air.syntax import Function, Instruction

__all__ = ["Block", "Flow", "flow_of"]

# Calls that the threads of a simdgroup, or of a threadgroup, make together.
_GATHER = ("air.simdgroup.barrier", "air.simdgroup_matrix")
_BARRIER = "air.wg.barrier"


@dataclass(slots=True)
class Block:
    """`targets` are the numbers of the blocks that it may lead to.

    `ends` is what the last instruction is: "jump", "barrier" (threads wait, then the next block
    follows), or "next". A block that is `gathered` begins when all threads are there. `moves` are
    the values that phis of a target get from here.
    """

    index: int
    items: list[Instruction]
    ends: str = "next"
    gathered: bool = False
    targets: list[int] = field(default_factory=list)
    phis: list[Instruction] = field(default_factory=list)
    moves: dict[int, list[tuple[Instruction, int]]] = field(default_factory=dict)
    live_out: frozenset[str] = frozenset()


@dataclass(slots=True)
class Flow:
    blocks: list[Block]
    crossing: dict[str, None]  # names that live across blocks


def flow_of(function: Function) -> Flow:
    """The blocks of a function. Raises AIRError for a loop that is entered in two places."""
    names = _order(function)
    first: dict[str, int] = {}
    last: dict[str, Block] = {}
    blocks: list[Block] = []
    for name in names:
        first[name] = len(blocks)
        blocks += _split(function.blocks[name], len(blocks))
        last[name] = blocks[-1]
    for name in names:
        source = last[name]
        source.targets = [first[target] for target in source.items[-1].words]
        for target in dict.fromkeys(source.items[-1].words):
            for phi in blocks[first[target]].phis:
                place = phi.words.index(name)
                source.moves.setdefault(first[target], []).append((phi, place))
    for block in blocks:
        if block.ends != "jump":
            block.targets = [block.index + 1]
    return Flow(blocks, _find_live(blocks))


def _is_call(item: Instruction, *names: str) -> bool:
    return item.opcode == "call" and item.words[0].startswith(names)


def _split(items: list[Instruction], index: int) -> list[Block]:
    """A basic block in pieces, where threads wait for each other within it."""
    phis = [item for item in items if item.opcode == "phi"]
    blocks = [Block(index, [], phis=phis)]
    for item in items[len(phis) :]:
        if _is_call(item, *_GATHER):
            if blocks[-1].items or blocks[-1].phis:
                blocks.append(Block(index + len(blocks), []))
            blocks[-1].gathered = True
        blocks[-1].items.append(item)
        if _is_call(item, _BARRIER):
            blocks[-1].ends = "barrier"
            blocks.append(Block(index + len(blocks), []))
    blocks[-1].ends = "jump"
    return blocks


# -- the order


def _order(function: Function) -> list[str]:
    """Blocks after those that lead to them, loops whole."""
    entry = next(iter(function.blocks))
    targets = {name: list(dict.fromkeys(items[-1].words)) if items[-1].opcode in ("br", "switch")
               else [] for name, items in function.blocks.items()}  # fmt: skip
    for name, items in function.blocks.items():
        if items[-1].opcode not in ("br", "switch"):
            items[-1].words = ()
        for target in targets[name]:
            if target not in function.blocks:
                raise AIRError(f"{function.name} has no block {target}")
    dominators = _dominators(entry, targets)
    loops: dict[str, set[str]] = {}
    sources = _reverse(targets, dominators)
    for name in dominators:
        for target in targets[name]:
            if target in dominators[name]:
                loops.setdefault(target, {target}).update(_body(name, target, sources))
    found: list[str] = []
    _place(set(dominators), entry, targets, loops, found.append)
    return found


def _reverse(targets: dict[str, list[str]], names: Iterable[str]) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {name: [] for name in names}
    for name in sources:
        for target in targets[name]:
            sources[target].append(name)
    return sources


def _postorder(entry: str, ways: Callable[[str], Iterable[str]]) -> list[str]:
    found: list[str] = []
    seen = {entry}
    stack = [(entry, iter(ways(entry)))]
    while stack:
        name, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(ways(target))))
                break
        else:
            found.append(name)
            stack.pop()
    return found


def _dominators(entry: str, targets: dict[str, list[str]]) -> dict[str, set[str]]:
    """The blocks on every way to a block, for those that can be reached, in an order of ways."""
    order = _postorder(entry, targets.__getitem__)[::-1]
    sources = _reverse(targets, order)
    everyone = set(order)
    found = dict.fromkeys(order, everyone)
    found[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for name in order[1:]:
            before = set.intersection(*(found[source] for source in sources[name])) | {name}
            if before != found[name]:
                found[name] = before
                changed = True
    return found


def _body(tail: str, head: str, sources: dict[str, list[str]]) -> set[str]:
    """The blocks of a loop: those that lead to its end without going through its head."""
    body, left = {head}, [tail]
    while left:
        name = left.pop()
        if name not in body:
            body.add(name)
            left += sources[name]
    return body


def _place(
    names: set[str], entry: str, targets: dict[str, list[str]], loops: dict[str, set[str]],
    put: Callable[[str], object],
) -> None:  # fmt: skip
    """Puts blocks in order: loops inside of `names` are one block each, and placed whole."""
    outer: dict[str, str] = {}  # block -> the head of the widest loop that has it
    inside = {head: body & names for head, body in loops.items() if head in names and head != entry}
    for head, body in sorted(inside.items(), key=lambda pair: len(pair[1])):
        outer |= dict.fromkeys(body, head)

    def ways(name: str) -> list[str]:
        members = inside[name] if outer.get(name) == name else (name,)
        found = dict.fromkeys(
            outer.get(target, target)
            for member in sorted(members)
            for target in targets[member]
            if target in names and target != entry
        )
        found.pop(name, None)
        return list(found)

    for name in _postorder(entry, ways)[::-1]:
        if outer.get(name) == name:
            _place(inside[name], name, targets, loops, put)
        else:
            put(name)


# -- what is live


def _find_live(blocks: list[Block]) -> dict[str, None]:
    """Fills in what each block leaves for others; returns all of that."""
    numbers: dict[str, int] = {}

    def bit(name: str) -> int:
        return 1 << numbers.setdefault(name, len(numbers))

    uses, defines = [], []
    for block in blocks:
        used = defined = 0
        for phi in block.phis:
            # A phi's place is written by those who come here.
            used |= bit(phi.result)
        for item in block.items:
            for value in item.operands:
                if isinstance(value, Local):
                    used |= bit(value.name) & ~defined
            if item.result:
                defined |= bit(item.result)
        for moves in block.moves.values():
            for phi, place in moves:
                value = phi.operands[place]
                if isinstance(value, Local):
                    used |= bit(value.name) & ~defined
        for target, moves in block.moves.items():
            if block.targets == [target]:  # else some lanes go elsewhere, and keep what they had
                for phi, _ in moves:
                    defined |= bit(phi.result)
        uses.append(used)
        defines.append(defined)
    _, live_out = live_values(uses, defines, [block.targets for block in blocks])
    names = list(numbers)
    crossing = 0
    for block, out in zip(blocks, live_out, strict=True):
        block.live_out = frozenset(members(names, out))
        crossing |= out
    return dict.fromkeys(members(names, crossing))
