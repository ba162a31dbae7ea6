"""Entries of the tables that note accesses to global memory: rows of them, and epochs.

epoch (20 bits) | tag (27: the rest of the address) | atomic (1) | id (11) | bytes (4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.code import Code
from treadle.emulate.simt.shadow import OF_WARP, groups

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ATOMIC", "BLOCKS", "BYTES", "ENTRIES", "EPOCH", "ID", "ID_MASK", "LAST_EPOCH", "PADDING",
    "WAS_READ", "WHO", "Moment", "Noted", "Row", "each_row", "each_word", "stamp_epoch",
]  # fmt: skip

_INDEX_BITS, _TAG_BITS, _EPOCH_BITS = 19, 27, 20
ENTRIES, LAST_EPOCH = 1 << _INDEX_BITS, (1 << _EPOCH_BITS) - 1
PADDING = 128  # entries behind the last, for rows that reach over it
BYTES, ID, ATOMIC, _TAG, EPOCH, WAS_READ = 15, 4, 15, 16, 43, 63  # first bits; bytes: a mask
ID_MASK, _TAG_MASK = (1 << 11) - 1, (1 << _TAG_BITS) - 1
BLOCKS = 1058
WHO = LAST_EPOCH << EPOCH | _TAG_MASK << _TAG | ID_MASK << ID


class Noted:
    """The earlier access of a race, as a fault tells of it."""

    def __init__(self, word: int) -> None:
        self.id = word >> ID & ID_MASK
        self.epoch = word >> EPOCH & LAST_EPOCH
        self.is_of_blocks = self.id == BLOCKS
        atomic, was_read = word >> ATOMIC & 1, word >> WAS_READ & 1
        self.verb = "update" if atomic else "read" if was_read else "write"


class Moment:
    """Where the block stands in the launch: i64 values that all checks of a call share."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.before = code.load("block", "epoch_before", 64)
        self.now, self.barrier, self.first = (
            self.epoch(code.load("block", name))
            for name in ("stamp", "global_barrier_stamp", "first_stamp")
        )
        self.workers = code.load("block", "worker_mask", 64)
        self.worker = code.load("block", "worker", 64)
        self.warp = code.wide(code.load("warp", "number"))
        ordered = code.op(f"icmp ne i32 {code.load('block', 'ordered')}, 0")
        # The newest epoch of another block that is no race.
        self.others = code.op(f"select i1 {ordered}, i64 {LAST_EPOCH}, i64 {self.before}")

    def epoch(self, stamp: str) -> str:
        return stamp_epoch(self.code, stamp)


def stamp_epoch(code: Code, stamp: str) -> str:
    """The epoch of a stamp, at most the last one, whose accesses are told from no others."""
    scaled = code.op(f"shl i64 {code.wide(stamp)}, {code.load('block', 'epoch_shift', 64)}")
    epoch = code.op(f"add i64 {scaled}, {code.load('block', 'epoch_base', 64)}")
    return code.op(f"call i64 @llvm.umin.i64(i64 {epoch}, i64 {LAST_EPOCH})")


class Row:
    """Entries of `n` words in a row, and the access to them that is being made."""

    def __init__(self, moment: Moment, n: int, first: str, ids: str, held: str) -> None:
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
        head = self.spread(code.op(f"shl i64 {moment.now}, {EPOCH}"))
        self.head = self.op("or", head, self.op("shl", self.tags, _TAG))
        self.mine = self.entry(ids, self.spread(held))

    def spread(self, value: str) -> str:
        return self.code.spread("i64", value, self.n)

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
        low = self.op("or", self.op("shl", ids, ID), held)
        return self.op("or", self.head, low)

    def place(self, table: str) -> str:
        return self.code.at(self.code.pointer("block", table), self.slot, 8)

    def load(self, table: str) -> str:
        return self.code.op(f"load {self.shape}, ptr {self.place(table)}, align 8")

    def store(self, table: str, value: str) -> None:
        self.code.do(f"store {self.shape} {value}, ptr {self.place(table)}, align 8")

    def is_live(self, found: str) -> str:
        """Which entries are of these words and of this launch."""
        epochs = self.op("lshr", found, EPOCH)
        tags = self.op("and", self.op("lshr", found, _TAG), _TAG_MASK)
        return self.both(
            self.test("eq", tags, self.tags),
            self.test("ugt", epochs, self.spread(self.moment.before)),
            self.test("ult", epochs, LAST_EPOCH),
        )

    def id_of(self, found: str) -> str:
        return self.op("and", self.op("lshr", found, ID), ID_MASK)

    def is_near(self, found: str) -> str:
        """Which entries of this launch are all of this block."""
        epochs = self.op("lshr", found, EPOCH)
        workers = self.op("and", epochs, self.spread(self.moment.workers))
        return self.both(
            self.test("eq", workers, self.spread(self.moment.worker)),
            self.test("uge", epochs, self.spread(self.moment.first)),
            self.test("ne", self.id_of(found), BLOCKS),
        )

    def is_suspicious(self, found: str) -> str:
        """Which of these words somebody else accessed with no barrier since."""
        moment = self.moment
        limits = self.choose(
            self.is_near(found), self.spread(moment.barrier), self.spread(moment.others)
        )
        same = self.op("and", self.op("xor", found, self.mine), WHO)
        overlap = self.op("and", self.op("and", found, self.mine), BYTES)
        return self.both(
            self.is_live(found),
            self.test("ugt", self.op("lshr", found, EPOCH), limits),
            self.test("ne", same, 0),
            self.test("ne", overlap, 0),
        )


def each_word(code: Code, address: str, visit: Callable[[str, str], object]) -> None:
    """`visit(number, held)` for the words of an access of %nbytes; `held` masks bytes of one."""
    first = code.op(f"and i64 {address}, 3")
    ones = code.op(f"sub i64 {code.op('shl i64 1, %size')}, 1")
    all_held = code.op(f"shl i64 {ones}, {first}")
    number = code.op(f"lshr i64 {address}, 2")
    last = code.op(f"add i64 {code.op(f'add i64 {first}, %size')}, 3")
    count = code.op(f"trunc i64 {code.op(f'lshr i64 {last}, 2')} to i32")

    def word(i: str) -> None:
        along = code.wide(i)
        moved = code.op(f"lshr i64 {all_held}, {code.op(f'shl i64 {along}, 2')}")
        held = code.op(f"and i64 {moved}, {BYTES}")
        visit(code.op(f"add i64 {number}, {along}"), held)

    code.count(count, word)


def each_row(code: Code, visit: Callable[[Row], object], may_group: bool) -> None:
    """`visit(row)` for the words of all lanes of %mask.

    Neighbours in order are rows of a word for each lane, or of a quarter as many where a word is of
    several lanes.
    """
    moment = Moment(code)
    code.do("%size = zext i32 %nbytes to i64")
    machine = code.machine
    narrow_words = machine.width // 4
    addresses = code.op(f"load <W x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    first = code.op(f"extractelement <W x i64> {addresses}, i32 0")
    words = code.op(f"lshr i64 {first}, 2")
    base, sizes = code.spread("i64", first), code.spread("i64", "%size")
    steps = code.op(f"mul <W x i64> {machine.iota}, {sizes}")
    same = code.op(f"icmp eq <W x i64> {code.op(f'sub <W x i64> {addresses}, {base}')}, {steps}")
    straight = code.op(f"call i1 @llvm.vector.reduce.and.vWi1(<W x i1> {same})")
    in_order = code.op(f"and i1 {straight}, {code.op('icmp eq MASK %mask, -1')}")
    wide = code.op(f"and i1 {in_order}, {code.op('icmp uge i32 %nbytes, 4')}")
    aligned = code.op(f"icmp eq i64 {code.op(f'and i64 {first}, 3')}, 0")
    if not machine.needs_alignment:  # three words a lane go lane by lane, and parts of words
        whole = code.op("icmp ne i32 %nbytes, 12")
        wide = code.op(f"and i1 {code.op(f'and i1 {wide}, {whole}')}, {aligned}")
        in_order = code.op(f"and i1 {in_order}, {whole}")
    narrow = code.op(f"and i1 {in_order}, {aligned}")
    start = code.op(f"shl i64 {moment.warp}, {machine.shift}")
    group = code.op(f"add i64 {moment.warp}, {OF_WARP}")
    each = code.op("lshr i32 %nbytes, 2")

    def wide_row(part: str) -> None:
        along = code.op(f"shl i64 {code.wide(part)}, {machine.shift}")
        row = Row(
            moment,
            machine.width,
            code.op(f"add i64 {words}, {along}"),
            "zeroinitializer",
            str(BYTES),
        )
        shift = code.op(f"call i32 @llvm.cttz.i32(i32 {each}, i1 true)")
        places = row.op("add", row.spread(along), machine.iota)
        lanes = row.op("lshr", places, row.spread(code.wide(shift)))
        row.ids = row.op("add", row.spread(start), lanes)
        row.mine = row.entry(row.ids, row.spread(str(BYTES)))
        visit(row)

    def narrow_row(part: str) -> None:
        along = code.op(f"shl i64 {code.wide(part)}, {narrow_words.bit_length() - 1}")
        ids = code.spread("i64", group, narrow_words)
        visit(Row(moment, narrow_words, code.op(f"add i64 {words}, {along}"), ids, str(BYTES)))

    def scattered() -> None:
        leaders, grouped = groups(code, addresses, "%mask") if may_group else ("%mask", "0")
        code.each_lane(leaders, lambda lane: lane_rows(lane, grouped))

    def lane_rows(lane: str, grouped: str) -> None:
        address = code.lane_address(lane)
        thread = code.op(f"add i64 {start}, {code.wide(lane)}")
        several = code.has_lane(grouped, lane)
        id = code.op(f"select i1 {several}, i64 {group}, i64 {thread}")
        ids = code.op(f"insertelement <1 x i64> poison, i64 {id}, i32 0")
        each_word(code, address, lambda word, held: visit(Row(moment, 1, word, ids, held)))

    code.when(
        wide,
        lambda: code.count(each, wide_row),
        lambda: code.when(narrow, lambda: code.count("%nbytes", narrow_row), scattered),
    )
