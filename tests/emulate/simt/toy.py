"""A toy instruction set on the core: structured programs, for both ways of control flow.

    double = [("id", "a"), ("add", "b", "a", "a"), ("if", "p", [...], [...]), ("while", [...], "p",
    [...])]

Registers `a` to `j` have 64 bits in each lane. With lanes' counters `if` and `while` are branches
that lanes take or not. With one counter they narrow EXEC, as AMD's compilers do: what no lane is
left for is jumped over. Sites number the instructions from 1 in the order in which they are
written.
"""

import functools
from dataclasses import dataclass, field

from treadle.emulate.simt.accesses import (
    fence,
    flight_commit,
    flight_start,
    flight_wait,
    load,
    load_scalars,
    read_modify_write,
    store,
)
from treadle.emulate.simt.atomics import atomic_function
from treadle.emulate.simt.emit import Emitter
from treadle.emulate.simt.front_end import FrontEnd, Translation
from treadle.emulate.simt.lane_counters import LaneCounters
from treadle.emulate.simt.machine import Fault, Machine, Windows
from treadle.emulate.simt.registers import Place, Registers
from treadle.emulate.simt.scalar_counter import ScalarCounter

NAMES = "abcdefghij"
MASKS = 8  # that `if` and `while` keep
WINDOWS = Windows(1 << 56, 1 << 32, 2 << 56, 1 << 32)
ODD = Fault.FIRST_OWN  # the toy's own fault


@functools.cache
def front_end(width, has_lane_counters):
    """A front end, the same one for the same arguments: its functions are compiled once.

    With one counter only what is atomic has to be on a multiple of its bytes, as on AMD's GPUs.
    """
    machine = Machine(
        width,
        has_lane_counters,
        needs_alignment=has_lane_counters,
        launch=(("user", 8),),
        block=(("user", 8),),
        warp=(
            *((name, 8 * width) for name in NAMES),
            *((f"mask{i}", width // 8) for i in range(MASKS)),
            ("ids", 4 * width),
            ("user", 8),
        ),
    )

    def start_block(code):
        code.do("; what the launch says")
        user = code.load("launch", "user", 64)
        # A scalar that all warps get: the launch's, plus the number of the block.
        code.save("block", "user", code.op(f"add i64 {user}, %number"), 64)

    def start_warp(code, warp):
        """Coordinates come packed, 10 bits each, and the scalar goes where kernels look for it."""
        parts = [
            code.op(f"load <W x i32>, ptr {code.at(warp, machine.warp[f'tid_{axis}'])}")
            for axis in "xyz"
        ]
        packed = parts[0]
        for shift, part in ((10, parts[1]), (20, parts[2])):
            moved = code.op(f"shl <W x i32> {part}, splat (i32 {shift})")
            packed = code.op(f"or <W x i32> {packed}, {moved}")
        code.do(f"store <W x i32> {packed}, ptr {code.at(warp, machine.warp['ids'])}")
        user = code.load("block", "user", 64)
        code.do(f"store i64 {user}, ptr {code.at(warp, machine.warp['user'])}")

    return FrontEnd(
        "toy",
        machine,
        start_block=start_block,
        start_warp=start_warp,
        faults={ODD: lambda facts: f"{facts.who}: something odd"},
        pending_reader="the toy's engine",
        windows=WINDOWS,
    )


@dataclass
class Block:
    """Instructions with their sites; the last may be an ending."""

    items: list = field(default_factory=list)


ENDINGS = {"goto", "unless", "unless_any", "switch", "barrier", "wait_barrier", "exit"}


def flatten(program, has_lane_counters):
    """The program as instructions and labels."""
    found, labels, masks = [], iter(range(1000)), iter(range(MASKS))

    def add(items):
        for item in items:
            if item[0] == "if":
                add_if(*item[1:])
            elif item[0] == "while":
                add_while(*item[1:])
            else:
                found.append(item)

    def add_if(condition, then, other=()):
        otherwise, end = next(labels), next(labels)
        if has_lane_counters:
            found.append(("unless", condition, otherwise))
            add(then)
            found.extend([("goto", end), ("label", otherwise)])
            add(other)
            found.append(("label", end))
            return
        before, taken = next(masks), next(masks)
        found.extend([("narrow", before, taken, condition), ("unless_any", otherwise)])
        add(then)
        found.extend([("label", otherwise), ("others", before, taken), ("unless_any", end)])
        add(other)
        found.extend([("label", end), ("restore", before)])

    def add_while(head, condition, body):
        top, end = next(labels), next(labels)
        if has_lane_counters:
            found.append(("label", top))
            add(head)
            found.append(("unless", condition, end))
            add(body)
            found.extend([("goto", top), ("label", end)])
            return
        before, taken = next(masks), next(masks)
        found.extend([("keep", before), ("label", top)])
        add(head)
        found.extend([("narrow", taken, taken, condition), ("unless_any", end)])
        add(body)
        found.extend([("goto", top), ("label", end), ("restore", before)])

    add(program)
    return [*found, ("exit",)]


def split(items):
    """Basic blocks, and the block that each label is."""
    blocks, labels, site = [Block()], {}, 0
    for item in items:
        starts = item[0] in ("label", "together")
        if starts and blocks[-1].items:
            blocks.append(Block())
        if item[0] == "label":
            labels[item[1]] = len(blocks) - 1
            continue
        site += 1
        blocks[-1].items.append((site, item))
        if item[0] in ENDINGS:
            blocks.append(Block())
    return [*blocks[:-1]] if not blocks[-1].items else blocks, labels


class Kernel:
    """Writes the code of a program."""

    def __init__(self, machine, program):
        self.machine = machine
        self.e = e = Emitter(machine)
        lanes = {name: Place(machine.warp[name], "i64") for name in NAMES}
        kind = machine.mask
        masks = {
            name: Place(machine.warp[name], kind, is_scalar=True)
            for name in (*(f"mask{i}" for i in range(MASKS)), "exec")
            if name in machine.warp
        }
        self.registers = Registers(e, lanes | masks)
        self.blocks, self.labels = split(flatten(program, machine.has_lane_counters))
        counter = LaneCounters if machine.has_lane_counters else ScalarCounter
        self.flow = counter(e, len(self.blocks))

    def text(self, symbol):
        self.flow.write_dispatcher()
        for index, block in enumerate(self.blocks):
            self.index = index
            self.flow.begin(index)
            self.enter()
            ended = False
            for site, item in block.items:
                self.e.site = str(site)
                ended = item[0] in ENDINGS
                getattr(self, f"op_{item[0]}")(*item[1:])
            if not ended:
                self.leave()
                self.flow.go(index, index + 1)
        return self.e.definition(symbol)

    # -- lanes that act

    def enter(self):
        self.registers.enter()
        if self.machine.has_lane_counters:
            self.flow.enter()
            self.e.mask, self.e.mask_bits = self.flow.mask, self.flow.mask_bits
        else:
            self.see_exec()

    def see_exec(self):
        self.e.mask_bits = self.registers.read("exec")
        self.e.mask = self.e.as_lanes(self.e.mask_bits)

    def set_exec(self, mask):
        self.registers.write("exec", mask)
        self.see_exec()

    def leave(self):
        if self.machine.has_lane_counters:
            self.registers.leave(None, self.flow.mask, self.flow.mask_bits)
        else:
            self.registers.leave()

    # -- values

    def write(self, name, value):
        """Each lane that acts gets its value."""
        lanes = "" if self.machine.has_lane_counters else self.e.mask
        self.registers.write(name, value, lanes)

    def extend(self, value, bits):
        if bits == 64:
            return value
        opcode = "zext" if bits < 64 else "trunc"
        return self.e.op(f"{opcode} {self.e.lanes(f'i{bits}')} {value} to {self.e.lanes('i64')}")

    def narrowed(self, name, bits):
        value = self.registers.read(name)
        if bits == 64:
            return value
        return self.e.op(f"trunc {self.e.lanes('i64')} {value} to {self.e.lanes(f'i{bits}')}")

    def truth(self, name):
        return self.e.op(f"icmp ne {self.e.lanes('i64')} {self.registers.read(name)}, "
                         "zeroinitializer")  # fmt: skip

    def op_id(self, name):
        ids = self.e.op(f"load {self.e.lanes('i32')}, ptr {self.e.warp_field('ids')}, align 64")
        self.write(name, self.extend(ids, 32))

    def op_user(self, name):
        user = self.e.op(f"load i64, ptr {self.e.warp_field('user')}")
        self.write(name, self.e.spread_scalar("i64", user))

    def op_const(self, name, value):
        self.write(name, f"splat (i64 {value})")

    def _binary(self, opcode, name, a, b):
        a, b = self.registers.read(a), self.registers.read(b)
        self.write(name, self.e.op(f"{opcode} {self.e.lanes('i64')} {a}, {b}"))

    op_add = functools.partialmethod(_binary, "add")
    op_sub = functools.partialmethod(_binary, "sub")
    op_mul = functools.partialmethod(_binary, "mul")
    op_and = functools.partialmethod(_binary, "and")
    op_shr = functools.partialmethod(_binary, "lshr")

    def _compare(self, how, name, a, b):
        a, b = self.registers.read(a), self.registers.read(b)
        found = self.e.op(f"icmp {how} {self.e.lanes('i64')} {a}, {b}")
        self.write(name, self.extend(found, 1))

    op_less = functools.partialmethod(_compare, "ult")
    op_equal = functools.partialmethod(_compare, "eq")

    # -- memory

    def op_load(self, space, name, address, bits=32):
        (value,) = load(self.e, space, self.registers.read(address), bits)
        self.write(name, self.extend(value, bits))

    def op_load_scalars(self, address, *names):
        """Words of 64 bits from the address of the first lane on."""
        place = self.e.op(f"extractelement {self.e.lanes('i64')} {self.registers.read(address)}, "
                          "i32 0")  # fmt: skip
        for name, value in zip(names, load_scalars(self.e, place, 64, len(names)), strict=True):
            self.write(name, self.e.spread_scalar("i64", value))

    def op_load_three(self, space, address, *names):
        values = load(self.e, space, self.registers.read(address), 32, 3)
        for name, value in zip(names, values, strict=True):
            self.write(name, self.extend(value, 32))

    def op_store_three(self, space, address, *names):
        values = [self.narrowed(name, 32) for name in names]
        store(self.e, space, self.registers.read(address), 32, values)

    def op_store(self, space, address, name, bits=32):
        values = [self.narrowed(name, bits)]
        store(self.e, space, self.registers.read(address), bits, values)

    def op_atomic(self, operation, space, name, address, operand):
        function = atomic_function(self.e, operation, "u32")
        value = self.narrowed(operand, 32)
        place = self.registers.read(address)
        found = read_modify_write(self.e, function, space, place, 32, value)
        self.write(name, self.extend(found, 32))

    def op_fence(self):
        fence(self.e)

    def op_read_later(self, low, high):
        flight_start(self.e, 1, str(low), str(high))
        flight_commit(self.e, 1)

    def op_wait(self):
        flight_wait(self.e, 1, "0")

    def op_odd(self):
        self.e.fault(ODD)

    # -- what a warp does together

    def op_together(self, members):
        """Only where lanes have counters: a block's first instruction."""
        self.flow.gather(self.index, str(members))
        self.enter()

    def op_count(self, name, condition):
        mask, width = self.machine.mask, self.machine.width
        truth = self.e.as_mask(self.truth(condition))
        mine = self.e.op(f"and {mask} {truth}, {self.e.mask_bits}")
        number = self.e.intrinsic(f"llvm.ctpop.i{width}", mask, f"{mask} {mine}")
        if width != 64:
            opcode = "zext" if width < 64 else "trunc"
            number = self.e.op(f"{opcode} {mask} {number} to i64")
        self.write(name, self.e.spread_scalar("i64", number))

    # -- control flow

    def op_goto(self, label):
        self.leave()
        self.flow.go(self.index, self.labels[label])

    def op_unless(self, condition, label):
        e, kind = self.e, self.e.lanes("i1")
        lanes = e.op(f"xor {kind} {self.truth(condition)}, splat (i1 true)")
        lanes = e.op(f"and {kind} {lanes}, {e.mask}")
        self.leave()
        self.flow.branch(self.index, e.as_mask(lanes), lanes, self.labels[label], self.index + 1)

    def op_unless_any(self, label):
        none = self.e.op(f"icmp eq {self.machine.mask} {self.e.mask_bits}, 0")
        self.leave()
        self.flow.branch(self.index, none, self.labels[label], self.index + 1)

    def op_keep(self, mask):
        self.registers.write(f"mask{mask}", self.e.mask_bits)

    def op_narrow(self, before, taken, condition):
        truth, now = self.e.as_mask(self.truth(condition)), self.e.mask_bits
        left = self.e.op(f"and {self.machine.mask} {now}, {truth}")
        self.registers.write(f"mask{before}", now)
        self.registers.write(f"mask{taken}", left)
        self.set_exec(left)

    def op_others(self, before, taken):
        every, some = (self.registers.read(f"mask{i}") for i in (before, taken))
        self.set_exec(self.e.op(f"xor {self.machine.mask} {every}, {some}"))

    def op_restore(self, mask):
        self.set_exec(self.registers.read(f"mask{mask}"))

    def op_switch(self, name, labels):
        """Each lane takes the label of its number; a warp with one counter that of its first."""
        value, targets = self.narrowed(name, 32), [self.labels[label] for label in labels]
        self.leave()
        if self.machine.has_lane_counters:
            self.flow.table_branch(value, self.e.mask, targets)
            return
        lane = self.e.first_lane(self.e.mask_bits)
        number = self.e.op(f"extractelement {self.e.lanes('i32')} {value}, i32 {lane}")
        block = "-1"
        for n, target in enumerate(targets):
            same = self.e.op(f"icmp eq i32 {number}, {n}")
            block = self.e.op(f"select i1 {same}, i32 {target}, i32 {block}")
        self.flow.jump(self.index, block, self.e.op(f"zext i32 {number} to i64"))

    def op_barrier(self, number=0):
        self.leave()
        if self.machine.has_lane_counters:
            self.flow.barrier(self.index, self.e.mask_bits, str(number))
        else:
            self.flow.barrier(self.index, str(number))

    def op_signal(self, number=0):
        self.flow.signal(str(number))

    def op_wait_barrier(self, number=0):
        self.leave()
        self.flow.wait(self.index, str(number))

    def op_exit(self):
        self.leave()
        if self.machine.has_lane_counters:
            self.flow.exit(self.index, self.e.mask_bits)
        else:
            self.flow.exit()


def translation(front, program, shared_bytes=0, local_bytes=0):
    """The kernel `k`."""
    machine = front.machine
    text = Kernel(machine, program).text("toy_k")
    return Translation(
        "k", "toy_k", text, shared_bytes, local_bytes, machine.warp_bytes,
        "instruction {} of the toy".format,
    )  # fmt: skip
