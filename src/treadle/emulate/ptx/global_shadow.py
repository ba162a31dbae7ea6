"""What is known of global memory in one launch: who wrote and read each word of four bytes last.

Two tables of 64-bit entries stand for all memory: the word at address a has the entry number
a / 4 modulo ENTRIES, and a later word may take it away, which hides a race and invents none.

    epoch (20 bits) | tag (27: the rest of the address) | atomic (1) | id (11) | bytes (4)

Epochs are the stamps of shared memory (see shadow) made unique in the launch: stamp k of worker w
of a power of two n of workers is base + k * n + w. So an entry tells whether this launch made it,
and whether the block that now runs here did. Ids are shadow's; _BLOCKS is for several blocks.

Accesses of one block race as they do in shared memory. Those of two blocks race unless the later
one's block has fenced, acquired, or done something atomic before it: what that orders cannot be
seen here, so it counts for everything. Strong accesses (volatile, relaxed, ...) are never looked
at, and a store of what is there already is no race.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.code import Code
from treadle.emulate.ptx.machine import BLOCK, Fault
from treadle.emulate.ptx.moves import address_of
from treadle.emulate.ptx.shadow import LOAD, OF_MANY, OF_WARP, STORE, TOUCH, groups

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ENTRIES",
    "GLOBAL_SYMBOLS",
    "LAST_EPOCH",
    "PADDING",
    "Access",
    "global_functions",
    "stamp_epoch",
]

GLOBAL_SYMBOLS = ("treadle_ptx_touch_global",)
_INDEX_BITS, _TAG_BITS, _EPOCH_BITS = 19, 27, 20
ENTRIES, LAST_EPOCH = 1 << _INDEX_BITS, (1 << _EPOCH_BITS) - 1
PADDING = 32  # entries behind the last, for rows that reach over it
_BYTES, _ID, _ATOMIC, _TAG, _EPOCH, _WAS_READ = 15, 4, 15, 16, 43, 63  # first bits; bytes: a mask
_ID_MASK, _TAG_MASK = (1 << 11) - 1, (1 << _TAG_BITS) - 1
_BLOCKS = 1058
_WHO = LAST_EPOCH << _EPOCH | _TAG_MASK << _TAG | _ID_MASK << _ID
_LANES = "ptr %block, ptr %warp, i32 %mask, i32 %line, i32 %nbytes"
_WRITTEN, _READ = "global_written", "global_read"


class Access:
    """The earlier access of a race, as a fault tells of it."""

    def __init__(self, word: int) -> None:
        self.id = word >> _ID & _ID_MASK
        self.epoch = word >> _EPOCH & LAST_EPOCH
        self.is_of_blocks = self.id == _BLOCKS
        atomic, was_read = word >> _ATOMIC & 1, word >> _WAS_READ & 1
        self.verb = "update" if atomic else "read" if was_read else "write"


def global_functions() -> list[str]:
    """look_global_* before an access, note_global_* behind it, and what they call."""
    return [
        _look(LOAD), _look(STORE), _judge(), _races(), _note_write(), _note_read(), _touch()
    ]  # fmt: skip


class _Moment:
    """Where the block stands in the launch: i64 values that all checks of a call share."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.before = code.load("block", "epoch_before", 64)
        self.now, self.barrier, self.first = (
            self.epoch(code.load("block", name))
            for name in ("stamp", "barrier_stamp", "first_stamp")
        )
        self.workers = code.load("block", "worker_mask", 64)
        self.worker = code.load("block", "worker", 64)
        self.warp = code.op(f"zext i32 {code.load('warp', 'number')} to i64")
        ordered = code.op(f"icmp ne i32 {code.load('block', 'ordered')}, 0")
        # The newest epoch of another block that is no race.
        self.others = code.op(f"select i1 {ordered}, i64 {LAST_EPOCH}, i64 {self.before}")

    def epoch(self, stamp: str) -> str:
        return stamp_epoch(self.code, stamp)


def stamp_epoch(code: Code, stamp: str) -> str:
    """The epoch of a stamp, at most the last one, whose accesses are told from no others."""
    wide = code.op(f"zext i32 {stamp} to i64")
    scaled = code.op(f"shl i64 {wide}, {code.load('block', 'epoch_shift', 64)}")
    epoch = code.op(f"add i64 {scaled}, {code.load('block', 'epoch_base', 64)}")
    return code.op(f"call i64 @llvm.umin.i64(i64 {epoch}, i64 {LAST_EPOCH})")


class _Row:
    """Entries of `n` words in a row, and the access to them that is being made."""

    def __init__(self, moment: _Moment, n: int, first: str, ids: str, held: str) -> None:
        """The number of the first word; a vector of ids; the bytes of each word, an i64."""
        self.code, self.moment, self.n = moment.code, moment, n
        self.shape, self.flags = f"<{n} x i64>", f"<{n} x i1>"
        code = self.code
        self.slot = code.op(f"and i64 {first}, {ENTRIES - 1}")
        steps = ", ".join(f"i64 {i}" for i in range(n))
        words = self.op("add", self.spread(first), f"<{steps}>")
        self.tags = self.op("and", self.op("lshr", words, _INDEX_BITS), _TAG_MASK)
        self.ids, self.held = ids, held
        # Each word's entry of this access but for the id and the bytes.
        head = self.spread(code.op(f"shl i64 {moment.now}, {_EPOCH}"))
        self.head = self.op("or", head, self.op("shl", self.tags, _TAG))
        self.mine = self.entry(ids, self.spread(held))

    def spread(self, value: str) -> str:
        one = self.code.op(f"insertelement {self.shape} poison, i64 {value}, i32 0")
        zeroes = f"<{self.n} x i32> zeroinitializer"
        return self.code.op(f"shufflevector {self.shape} {one}, {self.shape} poison, {zeroes}")

    def _operand(self, value: str | int) -> str:
        return f"splat (i64 {value})" if isinstance(value, int) else value

    def op(self, opcode: str, a: str, b: str | int) -> str:
        return self.code.op(f"{opcode} {self.shape} {a}, {self._operand(b)}")

    def test(self, how: str, a: str, b: str | int) -> str:
        return self.op(f"icmp {how}", a, b)

    def both(self, a: str, *more: str) -> str:
        for b in more:
            a = self.code.op(f"and {self.flags} {a}, {b}")
        return a

    def either(self, a: str, b: str) -> str:
        return self.code.op(f"or {self.flags} {a}, {b}")

    def no(self, a: str) -> str:
        return self.code.op(f"xor {self.flags} {a}, splat (i1 true)")

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.code.op(f"select {self.flags} {condition}, {self.shape} {a}, {self.shape} {b}")

    def any(self, flags: str) -> str:
        bits = self.code.op(f"bitcast {self.flags} {flags} to i{self.n}")
        return self.code.op(f"icmp ne i{self.n} {bits}, 0")

    def entry(self, ids: str, held: str) -> str:
        low = self.op("or", self.op("shl", ids, _ID), held)
        return self.op("or", self.head, low)

    def place(self, table: str) -> str:
        return self.code.at(self.code.pointer("block", table), self.slot, 8)

    def load(self, table: str) -> str:
        return self.code.op(f"load {self.shape}, ptr {self.place(table)}, align 8")

    def store(self, table: str, value: str) -> None:
        self.code.do(f"store {self.shape} {value}, ptr {self.place(table)}, align 8")

    def is_live(self, found: str) -> str:
        """Which entries are of these words and of this launch."""
        epochs = self.op("lshr", found, _EPOCH)
        tags = self.op("and", self.op("lshr", found, _TAG), _TAG_MASK)
        return self.both(
            self.test("eq", tags, self.tags),
            self.test("ugt", epochs, self.spread(self.moment.before)),
            self.test("ult", epochs, LAST_EPOCH),
        )

    def id_of(self, found: str) -> str:
        return self.op("and", self.op("lshr", found, _ID), _ID_MASK)

    def is_near(self, found: str) -> str:
        """Which entries of this launch are all of this block."""
        epochs = self.op("lshr", found, _EPOCH)
        workers = self.op("and", epochs, self.spread(self.moment.workers))
        return self.both(
            self.test("eq", workers, self.spread(self.moment.worker)),
            self.test("uge", epochs, self.spread(self.moment.first)),
            self.test("ne", self.id_of(found), _BLOCKS),
        )

    def is_suspicious(self, found: str) -> str:
        """Which of these words somebody else accessed with no barrier since."""
        moment = self.moment
        limits = self.choose(
            self.is_near(found), self.spread(moment.barrier), self.spread(moment.others)
        )
        same = self.op("and", self.op("xor", found, self.mine), _WHO)
        overlap = self.op("and", self.op("and", found, self.mine), _BYTES)
        return self.both(
            self.is_live(found),
            self.test("ugt", self.op("lshr", found, _EPOCH), limits),
            self.test("ne", same, 0),
            self.test("ne", overlap, 0),
        )


def _held(code: Code, address: str) -> str:
    """Which bytes of a word an access of %nbytes has, as a mask."""
    small = code.op("icmp ult i32 %nbytes, 4")
    ones = code.op(f"sub i64 {code.op('shl i64 1, %size')}, 1")
    part = code.op(f"shl i64 {ones}, {code.op(f'and i64 {address}, 3')}")
    return code.op(f"select i1 {small}, i64 {part}, i64 {_BYTES}")


def _each_row(code: Code, visit: Callable[[_Row], object], may_group: bool) -> None:
    """`visit(row)` for the words of all lanes of %mask.

    Neighbours in order are rows of 32 words, or of 8 where each word is of several lanes.
    """
    moment = _Moment(code)
    code.do("%size = zext i32 %nbytes to i64")
    addresses = code.op(f"load <32 x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    first = code.op(f"extractelement <32 x i64> {addresses}, i32 0")
    words = code.op(f"lshr i64 {first}, 2")
    spread = "<32 x i64> poison, <32 x i32> zeroinitializer"
    base, sizes = (
        code.op(
            "shufflevector <32 x i64> "
            + code.op(f"insertelement <32 x i64> poison, i64 {value}, i32 0")
            + f", {spread}"
        )
        for value in (first, "%size")
    )
    numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(32)) + ">"
    steps = code.op(f"mul <32 x i64> {numbers}, {sizes}")
    same = code.op(f"icmp eq <32 x i64> {code.op(f'sub <32 x i64> {addresses}, {base}')}, {steps}")
    straight = code.op(f"call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> {same})")
    in_order = code.op(f"and i1 {straight}, {code.op('icmp eq i32 %mask, -1')}")
    wide = code.op(f"and i1 {in_order}, {code.op('icmp uge i32 %nbytes, 4')}")
    aligned = code.op(f"icmp eq i64 {code.op(f'and i64 {first}, 3')}, 0")
    narrow = code.op(f"and i1 {in_order}, {aligned}")
    start = code.op(f"shl i64 {moment.warp}, 5")
    group = code.op(f"add i64 {moment.warp}, {OF_WARP}")
    each = code.op("lshr i32 %nbytes, 2")

    def wide_row(part: str) -> None:
        along = code.op(f"shl i64 {code.op(f'zext i32 {part} to i64')}, 5")
        row = _Row(moment, 32, code.op(f"add i64 {words}, {along}"), "zeroinitializer", str(_BYTES))
        shift = code.op(f"call i32 @llvm.cttz.i32(i32 {each}, i1 true)")
        places = row.op("add", row.spread(along), numbers)
        lanes = row.op("lshr", places, row.spread(code.op(f"zext i32 {shift} to i64")))
        row.ids = row.op("add", row.spread(start), lanes)
        row.mine = row.entry(row.ids, row.spread(str(_BYTES)))
        visit(row)

    def narrow_row(part: str) -> None:
        along = code.op(f"shl i64 {code.op(f'zext i32 {part} to i64')}, 3")
        one = code.op(f"insertelement <8 x i64> poison, i64 {group}, i32 0")
        ids = code.op(f"shufflevector <8 x i64> {one}, <8 x i64> poison, <8 x i32> zeroinitializer")
        visit(_Row(moment, 8, code.op(f"add i64 {words}, {along}"), ids, str(_BYTES)))

    def scattered() -> None:
        leaders, grouped = groups(code, addresses, "%mask") if may_group else ("%mask", "0")
        code.each_lane(leaders, lambda lane: lane_rows(lane, grouped))

    def lane_rows(lane: str, grouped: str) -> None:
        address = code.op(f"load i64, ptr {address_of(code, lane)}")
        thread = code.op(f"add i64 {start}, {code.op(f'zext i32 {lane} to i64')}")
        bit = code.op(f"and i32 {code.op(f'lshr i32 {grouped}, {lane}')}, 1")
        several = code.op(f"icmp ne i32 {bit}, 0")
        id = code.op(f"select i1 {several}, i64 {group}, i64 {thread}")
        ids = code.op(f"insertelement <1 x i64> poison, i64 {id}, i32 0")
        held = _held(code, address)
        number = code.op(f"lshr i64 {address}, 2")

        def word(i: str) -> None:
            along = code.op(f"zext i32 {i} to i64")
            visit(_Row(moment, 1, code.op(f"add i64 {number}, {along}"), ids, held))

        code.count(code.op(f"call i32 @llvm.umax.i32(i32 {each}, i32 1)"), word)

    code.when(
        wide,
        lambda: code.count(each, wide_row),
        lambda: code.when(narrow, lambda: code.count("%nbytes", narrow_row), scattered),
    )


def _unless_off(code: Code) -> None:
    """Returns if nobody asked for this, no lane is here, or the access is strong."""
    unasked = code.op(f"icmp eq i32 {code.load('block', 'checks_races')}, 0")
    code.when(unasked, lambda: code.leave("ret void"))
    idle = code.op("icmp eq i32 %mask, 0")
    strong = code.op(f"icmp ne i32 {code.load('block', 'strong')}, 0")
    code.when(code.op(f"or i1 {idle}, {strong}"), lambda: code.leave("ret void"))


def _look(how: int) -> str:
    """Reports races of an access that is to be made with what was noted."""
    name, tables = ("load", [_WRITTEN]) if how == LOAD else ("store", [_WRITTEN, _READ])
    code = Code("void", f"look_global_{name}", f"{_LANES}, i32 %how", "noinline")
    _unless_off(code)
    found = code.variable("i1", "false")

    def visit(row: _Row) -> None:
        for table in tables:
            entries = row.load(table)

            def more(entries: str = entries) -> None:
                code.set(found, code.op(f"or i1 {code.get(found)}, "
                                        f"{row.any(row.is_suspicious(entries))}"))  # fmt: skip

            code.when(row.any(row.is_live(entries)), more)

    _each_row(code, visit, may_group=how == LOAD)

    def judge(lane: str) -> None:
        address = code.op(f"load i64, ptr {address_of(code, lane)}")
        code.do(
            f"call void @judge_global(ptr %block, ptr %warp, i32 %line, i32 {lane}, "
            f"i64 {address}, i32 %nbytes, i32 %how)"
        )

    code.when(code.get(found), lambda: code.each_lane("%mask", judge))
    code.do("ret void")
    return code.text


def _judge() -> str:
    """Reports the race of one thread's access, word by word, if there is one."""
    code = Code(
        "void", "judge_global",
        "ptr %block, ptr %warp, i32 %line, i32 %lane, i64 %address, i32 %nbytes, i32 %how",
        "noinline cold",
    )  # fmt: skip
    code.do("%size = zext i32 %nbytes to i64")
    is_store = code.op(f"icmp eq i32 %how, {STORE}")
    held = _held(code, "%address")
    number = code.op("lshr i64 %address, 2")

    def fault(found: str, was_read: int) -> None:
        code.when(is_store, lambda: _unless_same(code))
        extra = code.op(f"or i64 {found}, {was_read << _WAS_READ}")
        code.do(
            f"call void @treadle_ptx_fault(ptr %block, ptr %warp, i32 {int(Fault.GLOBAL_RACE)}, "
            f"i32 %line, i32 %lane, i64 %address, i32 %nbytes, i64 {extra})"
        )
        code.leave("ret void")

    def look(table: str, word: str, was_read: int) -> None:
        slot = code.op(f"and i64 {word}, {ENTRIES - 1}")
        entry = code.op(f"load i64, ptr {code.at(code.pointer('block', table), slot, 8)}")
        races = code.op(
            f"call i1 @races_global(ptr %block, ptr %warp, i32 %lane, i64 {entry}, "
            f"i64 {word}, i64 {held})"
        )
        code.when(races, lambda: fault(entry, was_read))

    def step(i: str) -> None:
        word = code.op(f"add i64 {number}, {code.op(f'zext i32 {i} to i64')}")
        look(_WRITTEN, word, 0)
        code.when(is_store, lambda: look(_READ, word, 1))

    each = code.op("lshr i32 %nbytes, 2")
    code.count(code.op(f"call i32 @llvm.umax.i32(i32 {each}, i32 1)"), step)
    code.do("ret void")
    return code.text


def _unless_same(code: Code) -> None:
    """Returns if all that the lane stores is there already. Elements of all lanes lie together."""
    nbytes = code.load("block", "element")
    wide = code.op(f"zext i32 {nbytes} to i64")
    lane = code.op("zext i32 %lane to i64")
    differ = code.variable("i32", "0")

    def compare(i: str) -> None:
        part = code.op(f"zext i32 {i} to i64")
        row = code.op(f"add i64 {code.op(f'shl i64 {part}, 5')}, {lane}")
        mine = code.at(code.field("warp", "data"), code.op(f"mul i64 {row}, {wide}"))
        there = code.op(f"add i64 %address, {code.op(f'mul i64 {part}, {wide}')}")
        there = code.op(f"inttoptr i64 {there} to ptr")
        found = code.op(f"call i32 @memcmp(ptr {mine}, ptr {there}, i64 {wide})")
        code.set(differ, code.op(f"or i32 {code.get(differ)}, {found}"))

    code.count(code.op(f"udiv i32 %nbytes, {nbytes}"), compare)
    code.when(code.op(f"icmp eq i32 {code.get(differ)}, 0"), lambda: code.leave("ret void"))


def _races() -> str:
    """Whether a noted access by another thread is ordered by nothing before this one."""
    code = Code(
        "i1", "races_global",
        "ptr %block, ptr %warp, i32 %lane, i64 %noted, i64 %word, i64 %held", "noinline cold",
    )  # fmt: skip
    moment = _Moment(code)
    lane = code.op("zext i32 %lane to i64")
    mine = code.op(f"add i64 {code.op(f'shl i64 {moment.warp}, 5')}, {lane}")
    one = lambda value: code.op(f"insertelement <1 x i64> poison, i64 {value}, i32 0")
    row = _Row(moment, 1, "%word", one(mine), "%held")
    entry = one("%noted")
    suspicious = row.any(row.is_suspicious(entry))
    code.when(code.op(f"xor i1 {suspicious}, true"), lambda: code.leave("ret i1 false"))
    far = code.op(f"xor i1 {row.any(row.is_near(entry))}, true")
    code.when(far, lambda: code.leave("ret i1 true"))
    id = code.op(f"and i64 {code.op(f'lshr i64 %noted, {_ID}')}, {_ID_MASK}")
    group = code.op(f"add i64 {moment.warp}, {OF_WARP}")
    for other in (mine, group):  # of several threads of the own warp one may be this one
        code.when(code.op(f"icmp eq i64 {id}, {other}"), lambda: code.leave("ret i1 false"))
    stamps = code.at("%block", BLOCK["warp_stamps"])
    stamp = code.op(f"load i32, ptr {code.at(stamps, moment.warp, 4)}")
    barrier = code.load("block", "barrier_stamp")  # the other may be of a block before this one
    own = moment.epoch(code.op(f"call i32 @llvm.umax.i32(i32 {stamp}, i32 {barrier})"))
    epoch = code.op(f"lshr i64 %noted, {_EPOCH}")
    late = code.op(f"icmp ugt i64 {epoch}, {own}")
    apart = code.op(f"icmp ne i64 {code.op(f'lshr i64 {id}, 5')}, {moment.warp}")
    code.do(f"ret i1 {code.op(f'or i1 {late}, {apart}')}")
    return code.text


def _note_write() -> str:
    """Notes stores that have been made: only then another thread sees what they stored."""
    code = Code("void", "note_global_write", _LANES, "noinline")
    _unless_off(code)

    def visit(row: _Row) -> None:
        if row.n == 1:
            code.when(code.op("icmp ult i32 %nbytes, 4"), lambda: part(row), lambda: whole(row))
        else:
            whole(row)

    def whole(row: _Row) -> None:
        row.store(_WRITTEN, row.mine)

    def part(row: _Row) -> None:
        """Bytes that the warp wrote in this epoch stay."""
        found = row.load(_WRITTEN)
        head = row.op("and", row.op("xor", found, row.mine), _WHO & ~(_ID_MASK << _ID))
        joins = row.both(row.test("eq", head, 0), _is_of_warp(row, found))
        row.store(_WRITTEN, row.choose(joins, _joined(row, found), row.mine))

    _each_row(code, visit, may_group=False)
    code.do("ret void")
    return code.text


def _is_of_warp(row: _Row, found: str) -> str:
    ids, warp = row.id_of(found), row.spread(row.moment.warp)
    return row.either(
        row.test("eq", row.op("lshr", ids, 5), warp),
        row.test("eq", ids, row.op("add", warp, OF_WARP)),
    )


def _joined(row: _Row, found: str) -> str:
    """The entries of an access of the warp and an earlier one of it."""
    same = row.test("eq", row.id_of(found), row.ids)
    group = row.op("add", row.spread(row.moment.warp), OF_WARP)
    held = row.op("and", row.op("or", found, row.mine), _BYTES)
    return row.entry(row.choose(same, row.ids, group), held)


def _note_read() -> str:
    """Notes loads, and what is atomic (`%atomic` is 1) as such."""
    code = Code("void", "note_global_read", f"{_LANES}, i64 %atomic", "noinline")
    _unless_off(code)
    code.do(f"%kind = shl i64 %atomic, {_ATOMIC}")

    def visit(row: _Row) -> None:
        found = row.load(_READ)
        live = row.is_live(found)

        def fresh() -> None:
            row.store(_READ, row.op("or", row.mine, row.spread("%kind")))

        code.when(row.any(live), lambda: merge(row, found, live), fresh)

    def merge(row: _Row, found: str, live: str) -> None:
        near = row.is_near(found)
        late = row.test("ugt", row.op("lshr", found, _EPOCH), row.spread(row.moment.barrier))
        inside, outside = row.both(live, near, late), row.both(live, row.no(near))
        same_warp = _is_of_warp(row, found)
        # Bytes that several read are those that all of them do: of the others one is left out.
        both = row.op("and", row.op("and", found, row.mine), _BYTES)
        overlap = row.test("ne", both, 0)
        many = row.entry(f"splat (i64 {OF_MANY})", both)
        blocks = row.entry(f"splat (i64 {_BLOCKS})", both)
        value = row.choose(row.both(inside, overlap), many, row.mine)
        value = row.choose(row.both(inside, same_warp), _joined(row, found), value)
        value = row.choose(row.both(outside, overlap), blocks, value)
        row.store(_READ, row.op("or", value, row.spread("%kind")))

    _each_row(code, visit, may_group=True)
    code.do("ret void")
    return code.text


def _touch() -> str:
    """The lanes that may do something atomic in global memory, which orders the block."""
    code = Code("i32", "treadle_ptx_touch_global", _LANES, "noinline")
    records = "ptr %block, ptr %warp"
    good = code.op(
        f"call i32 @treadle_ptx_check_global({records}, i32 %mask, i32 %line, i32 %nbytes)"
    )
    code.do(
        f"call void @look_global_load({records}, i32 {good}, i32 %line, i32 %nbytes, i32 {TOUCH})"
    )
    code.do(f"call void @note_global_read({records}, i32 {good}, i32 %line, i32 %nbytes, i64 1)")
    some = code.op(f"icmp ne i32 {good}, 0")
    code.when(some, lambda: code.save("block", "ordered", "1"))
    code.do(f"ret i32 {good}")
    return code.text
