"""What is known of global memory in one launch: who wrote and read each word of four bytes last.

Two tables of 64-bit entries stand for all memory: the word at address a has the entry number
a / 4 modulo ENTRIES, and a later word may take it away, which hides a race and invents none.

    epoch (20 bits) | tag (27: the rest of the address) | atomic (1) | id (11) | bytes (4)

Epochs are the stamps of shared memory (see shadow) made unique in the launch: stamp k of worker w
of a power of two n of workers is base + k * n + w. So an entry tells whether this launch made it,
and whether the block that now runs here did. Ids are shadow's; BLOCKS is for several blocks.

Accesses of one block race as they do in shared memory. Those of two blocks race unless the later
one's block has fenced, acquired, or done something atomic before it: what that orders cannot be
seen here, so it counts for everything. Strong accesses (volatile, relaxed, ...) and bulk copies are
never looked at, and a store of what is there already is no race.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.code import LANES, RECORDS, Code
from treadle.emulate.simt.global_rows import (
    ATOMIC,
    BLOCKS,
    BYTES,
    ENTRIES,
    EPOCH,
    ID,
    ID_MASK,
    WAS_READ,
    WHO,
    Moment,
    Row,
    each_row,
    each_word,
)
from treadle.emulate.simt.machine import LOAD, STORE, TOUCH, Fault
from treadle.emulate.simt.moves import host_of
from treadle.emulate.simt.shadow import OF_MANY, OF_WARP, holds_value

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = ["GLOBAL_SYMBOLS", "global_functions"]

GLOBAL_SYMBOLS = ("treadle_simt_touch_global",)
_LANES = f"{LANES}, i32 %nbytes"
_WRITTEN, _READ = "global_written", "global_read"


def global_functions(m: Machine) -> list[str]:
    """look_global_* before an access, note_global_* behind it, and what they call."""
    return [
        _look(m, LOAD), _look(m, STORE), _judge(m), _races(m), _note_write(m), _note_read(m),
        _touch(m),
    ]  # fmt: skip


def _unless_off(code: Code) -> None:
    """Returns if nobody asked for this, no lane is here, or the access is strong."""
    unasked = code.op(f"icmp eq i32 {code.load('block', 'checks_races')}, 0")
    code.when(unasked, lambda: code.leave("ret void"))
    idle = code.is_empty("%mask")
    strong = code.op(f"icmp ne i32 {code.load('block', 'strong')}, 0")
    code.when(code.op(f"or i1 {idle}, {strong}"), lambda: code.leave("ret void"))


def _look(m: Machine, how: int) -> str:
    """Reports races of an access that is to be made with what was noted."""
    name, tables = ("load", [_WRITTEN]) if how == LOAD else ("store", [_WRITTEN, _READ])
    code = Code(m, "void", f"look_global_{name}", f"{_LANES}, i32 %how", "noinline")
    _unless_off(code)
    found = code.variable("i1", "false")

    def visit(row: Row) -> None:
        for table in tables:
            entries = row.load(table)

            def more(entries: str = entries) -> None:
                code.set(found, code.op(f"or i1 {code.get(found)}, "
                                        f"{row.any(row.is_suspicious(entries))}"))  # fmt: skip

            code.when(row.any(row.is_live(entries)), more)

    each_row(code, visit, may_group=how == LOAD)

    def judge(lane: str) -> None:
        code.do(
            f"call void @judge_global(ptr %block, ptr %warp, i32 %site, i32 {lane}, "
            f"i64 {code.lane_address(lane)}, i32 %nbytes, i32 %how)"
        )

    code.when(code.get(found), lambda: code.each_lane("%mask", judge))
    code.do("ret void")
    return code.text


def _judge(m: Machine) -> str:
    """Reports the race of one thread's access, word by word, if there is one."""
    code = Code(
        m, "void", "judge_global",
        "ptr %block, ptr %warp, i32 %site, i32 %lane, i64 %address, i32 %nbytes, i32 %how",
        "noinline cold",
    )  # fmt: skip
    code.do("%size = zext i32 %nbytes to i64")
    is_store = code.op(f"icmp eq i32 %how, {STORE}")

    def fault(found: str, was_read: int) -> None:
        code.when(is_store, lambda: _unless_same(code))
        extra = code.as_extra(code.op(f"or i64 {found}, {was_read << WAS_READ}"))
        code.report(Fault.GLOBAL_RACE, "%lane", "%address", "%nbytes", extra)
        code.leave("ret void")

    def look(table: str, word: str, held: str, was_read: int) -> None:
        slot = code.op(f"and i64 {word}, {ENTRIES - 1}")
        entry = code.op(f"load i64, ptr {code.at(code.pointer('block', table), slot, 8)}")
        races = code.op(
            f"call i1 @races_global(ptr %block, ptr %warp, i32 %lane, i64 {entry}, "
            f"i64 {word}, i64 {held})"
        )
        code.when(races, lambda: fault(entry, was_read))

    def step(word: str, held: str) -> None:
        look(_WRITTEN, word, held, 0)
        code.when(is_store, lambda: look(_READ, word, held, 1))

    each_word(code, "%address", step)
    code.do("ret void")
    return code.text


def _unless_same(code: Code) -> None:
    """Returns if all that the lane stores is there already."""
    same = holds_value(code, code.op(f"load ptr, ptr {host_of(code, '%lane')}"))
    code.when(same, lambda: code.leave("ret void"))


def _races(m: Machine) -> str:
    """Whether a noted access by another thread is ordered by nothing before this one."""
    code = Code(
        m, "i1", "races_global",
        "ptr %block, ptr %warp, i32 %lane, i64 %noted, i64 %word, i64 %held", "noinline cold",
    )  # fmt: skip
    moment = Moment(code)
    lane = code.wide("%lane")
    mine = code.op(f"add i64 {code.op(f'shl i64 {moment.warp}, {m.shift}')}, {lane}")
    one = lambda value: code.op(f"insertelement <1 x i64> poison, i64 {value}, i32 0")
    row = Row(moment, 1, "%word", one(mine), "%held")
    entry = one("%noted")
    suspicious = row.any(row.is_suspicious(entry))
    code.when(code.op(f"xor i1 {suspicious}, true"), lambda: code.leave("ret i1 false"))
    far = code.op(f"xor i1 {row.any(row.is_near(entry))}, true")
    code.when(far, lambda: code.leave("ret i1 true"))
    id = code.op(f"and i64 {code.op(f'lshr i64 %noted, {ID}')}, {ID_MASK}")
    group = code.op(f"add i64 {moment.warp}, {OF_WARP}")
    for other in (mine, group):  # of several threads of the own warp one may be this one
        code.when(code.op(f"icmp eq i64 {id}, {other}"), lambda: code.leave("ret i1 false"))
    apart = code.op(f"icmp ne i64 {code.op(f'lshr i64 {id}, {m.shift}')}, {moment.warp}")
    if not m.has_lane_counters:  # what one counter steps through is in the order of the program
        code.do(f"ret i1 {apart}")
        return code.text
    stamps = code.field("block", "global_warp_stamps")
    stamp = code.op(f"load i32, ptr {code.at(stamps, moment.warp, 4)}")
    # The other may be of a block before this one.
    barrier = code.load("block", "global_barrier_stamp")
    own = moment.epoch(code.op(f"call i32 @llvm.umax.i32(i32 {stamp}, i32 {barrier})"))
    epoch = code.op(f"lshr i64 %noted, {EPOCH}")
    late = code.op(f"icmp ugt i64 {epoch}, {own}")
    code.do(f"ret i1 {code.op(f'or i1 {late}, {apart}')}")
    return code.text


def _note_write(m: Machine) -> str:
    """Notes stores that have been made: only then another thread sees what they stored."""
    code = Code(m, "void", "note_global_write", _LANES, "noinline")
    _unless_off(code)

    def visit(row: Row) -> None:
        if row.n == 1:
            is_part = code.op(f"icmp ne i64 {row.held}, {BYTES}")
            code.when(is_part, lambda: part(row), lambda: whole(row))
        else:
            whole(row)

    def whole(row: Row) -> None:
        row.store(_WRITTEN, row.mine)

    def part(row: Row) -> None:
        """Bytes that the warp wrote in this epoch stay."""
        found = row.load(_WRITTEN)
        head = row.op("and", row.op("xor", found, row.mine), WHO & ~(ID_MASK << ID))
        joins = row.both(row.test("eq", head, 0), _is_of_warp(row, found))
        row.store(_WRITTEN, row.choose(joins, _joined(row, found), row.mine))

    each_row(code, visit, may_group=False)
    code.do("ret void")
    return code.text


def _is_of_warp(row: Row, found: str) -> str:
    ids, warp = row.id_of(found), row.spread(row.moment.warp)
    return row.either(
        row.test("eq", row.op("lshr", ids, row.code.machine.shift), warp),
        row.test("eq", ids, row.op("add", warp, OF_WARP)),
    )


def _joined(row: Row, found: str) -> str:
    """The entries of an access of the warp and an earlier one of it."""
    same = row.test("eq", row.id_of(found), row.ids)
    group = row.op("add", row.spread(row.moment.warp), OF_WARP)
    held = row.op("and", row.op("or", found, row.mine), BYTES)
    return row.entry(row.choose(same, row.ids, group), held)


def _note_read(m: Machine) -> str:
    """Notes loads, and what is atomic (`%atomic` is 1) as such."""
    code = Code(m, "void", "note_global_read", f"{_LANES}, i64 %atomic", "noinline")
    _unless_off(code)
    code.do(f"%kind = shl i64 %atomic, {ATOMIC}")

    def visit(row: Row) -> None:
        found = row.load(_READ)
        live = row.is_live(found)

        def fresh() -> None:
            row.store(_READ, row.op("or", row.mine, row.spread("%kind")))

        code.when(row.any(live), lambda: merge(row, found, live), fresh)

    def merge(row: Row, found: str, live: str) -> None:
        near = row.is_near(found)
        late = row.test("ugt", row.op("lshr", found, EPOCH), row.spread(row.moment.barrier))
        inside, outside = row.both(live, near, late), row.both(live, row.no(near))
        same_warp = _is_of_warp(row, found)
        # Bytes that several read are those that all of them do: of the others one is left out.
        both = row.op("and", row.op("and", found, row.mine), BYTES)
        overlap = row.test("ne", both, 0)
        many = row.entry(f"splat (i64 {OF_MANY})", both)
        blocks = row.entry(f"splat (i64 {BLOCKS})", both)
        value = row.choose(row.both(inside, overlap), many, row.mine)
        value = row.choose(row.both(inside, same_warp), _joined(row, found), value)
        value = row.choose(row.both(outside, overlap), blocks, value)
        row.store(_READ, row.op("or", value, row.spread("%kind")))

    each_row(code, visit, may_group=True)
    code.do("ret void")
    return code.text


def _touch(m: Machine) -> str:
    """The lanes that may do something atomic in global memory, which orders the block."""
    code = Code(m, "MASK", "treadle_simt_touch_global", _LANES, "noinline")
    good = code.op(f"call MASK @treadle_simt_check_global({_LANES}, i32 {TOUCH})")
    mine = f"{RECORDS}, MASK {good}, i32 %site, i32 %nbytes"
    code.do(f"call void @look_global_load({mine}, i32 {TOUCH})")
    code.do(f"call void @note_global_read({mine}, i64 1)")
    some = code.op(f"icmp ne MASK {good}, 0")
    code.when(some, lambda: code.save("block", "ordered", "1"))
    code.do(f"ret MASK {good}")
    return code.text
