"""Text for Adreno to machine code: each step by itself, and what is refused."""

import re
import threading
from pathlib import Path

import pytest
from tests.compile.mesa import disassemble

from treadle.compile.ir3 import IR3Compiler, machine_code
from treadle.compile.ir3.code import Constant, Instruction, Literal, Register, Value
from treadle.compile.ir3.conditions import join_conditions
from treadle.compile.ir3.hazards import insert_waits
from treadle.compile.ir3.liveness import gaps, lives, pressures
from treadle.compile.ir3.loops import hoist
from treadle.compile.ir3.operands import place_operands, propagate_copies, remove_dead
from treadle.compile.ir3.registers import allocate
from treadle.compile.ir3.schedule import schedule
from treadle.compile.ir3.text import parse
from treadle.compile.ir3.vectors import join_accesses
from treadle.errors import DeviceError, InternalError
from treadle.ir3_object import ImageSlot, KernelCode, pack, unpack
from treadle.target import ADRENO_CHIPS, adreno_chip, adreno_target

HEAD = "kernel k work_items=64 buffers=2 variables=0 shared=0\n"
BASE = "vector %1 2\nmov.u32u32 %1.0, c0.x\nmov.u32u32 %1.1, c0.y\n"
A630 = adreno_chip("a630")


def kernel(text, head=HEAD):
    (found,) = parse(head + text)
    return found


def shown(found):
    """The instructions of each block, without the last one's `end`."""
    blocks = [[one.op for one in block.code] for block in found.blocks]
    assert blocks[-1].pop() == "end"
    return blocks


def words(text):
    """The disassembly of a text."""
    return disassemble(list(machine_code(kernel(text), A630).code))


# -- text


def test_conditions_and_loops_become_blocks():
    found = kernel("if %1\nadd.u %2, %1, 1\nloop\nadd.u %2, %2, 1\nwhile %2\nend\n")
    assert [block.after for block in found.blocks] == [[1, 4], [2], [2, 3], [4], []]
    assert [block.meets for block in found.blocks] == [False, False, False, True, True]
    assert found.depth == 2
    assert found.blocks[0].code[-1].inverted
    assert found.blocks[0].code[-1].target == 4
    assert found.blocks[2].code[-1].target == 2


def test_operands_are_read():
    (one,) = kernel("mad.f32 %5.2, (neg)%3, %h4:2, (neg)(abs)c3.z\n").blocks[0].code[:1]
    assert one.dsts == [Value(5, 2)]
    assert one.srcs == [Value(3, neg=True), Value(4, count=2, half=True), Constant(14, True, True)]
    (one,) = kernel("add.u %5, r48.x, -3\n").blocks[0].code[:1]
    assert one.srcs == [Register(192), Literal(0xFFFFFFFD)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("end\n", "there is no open if"), ("loop\nend\n", "there is no open if"),
        ("if %1\nwhile %1\n", "there is no open loop"),
        ("add.f %1, %2, what\n", "no operand: what"),
        ("add.f 3, %2, %1\n", "the result is no virtual register"),
        ("add.f %1, %2x, %1\n", "no virtual register: %2x"), ("kernel k\n", "malformed head"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_an_error_with_its_line(text, why):
    with pytest.raises(InternalError, match=rf"line \d of ir3 text .*{re.escape(why)}"):
        kernel(text)


def test_instructions_before_a_kernel_are_an_error():
    with pytest.raises(InternalError, match="no kernel"):
        parse("add.f %1, %2, %3\n")


def test_a_rejected_text_is_saved():
    with pytest.raises(InternalError, match="generated ir3 text was rejected") as caught:
        IR3Compiler(adreno_target("a630")).compile(HEAD + "end\n")
    path = Path(str(caught.value).partition("saved as ")[2].partition(")")[0])
    assert path.read_text() == HEAD + "end\n"
    path.unlink()


# -- operands


def test_literals_are_part_of_an_instruction_a_constant_or_a_register():
    found = kernel(
        "add.u %1, %9, 511\nadd.u %2, %9, 512\nadd.f %3, %9, 0x40490fdb\nadd.f %4, %9, 0xbf800000\n"
        "add.f %5, %9, 0x40400000\nrcp %6, 0x40400000\nmad.f32 %7, 0x40400000, 0x40400000, %9\n"
        "add.u %8, 512, 513\n"
    )
    place_operands(found)
    code = found.blocks[0].code
    assert found.literals == [512, 0x40400000, 513]
    assert code[0].srcs[1] == Literal(511)
    assert code[1].srcs[1] == Constant(4)
    assert code[2].srcs[1] == Literal(0x40490FDB)
    assert code[3].srcs[1] == Literal(0x3F800000, neg=True)
    assert code[4].srcs[1] == Constant(5)
    assert [one.op for one in code[5:7]] == ["mov.u32u32", "rcp"]
    assert [one.op for one in code[7:9]] == ["mov.u32u32", "mad.f32"]
    assert code[8].srcs[0] == Constant(5)
    assert [one.op for one in code[9:11]] == ["mov.u32u32", "add.u"]


def test_too_many_constants_are_an_error():
    text = "".join(f"add.u %1, %1, {1000 + n}\n" for n in range(1025))
    with pytest.raises(InternalError, match="reads more than 1024 constants"):
        place_operands(kernel(text))


def test_copies_are_read_through_but_not_those_of_what_changes():
    found = kernel("mov.u32u32 %1, 5\nmov.u32u32 %2, %1\nadd.u %3, (neg)%2, %4\n"
                   "mov.u32u32 %5, %3\nadd.u %3, %3, 1\nadd.u %6, %5, %5\n")  # fmt: skip
    propagate_copies(found)
    code = found.blocks[0].code
    assert code[2].srcs[0] == Literal(5, neg=True)
    assert code[5].srcs == [Value(5), Value(5)]


def test_a_comparison_that_is_only_branched_on_sets_the_predicate():
    found = kernel("cmps.s.lt %1, %2, 5\nif %1\nadd.u %3, %2, 1\nend\n")
    propagate_copies(found)
    assert [one.op for one in found.blocks[0].code] == ["cmps.s.lt", "br"]
    found = kernel("cmps.s.lt %1, %2, 5\nif %1\nadd.u %3, %1, 1\nend\n")
    propagate_copies(found)
    assert [one.op for one in found.blocks[0].code] == ["cmps.s.lt", "cmps.s.ne", "br"]


def test_what_nobody_reads_goes():
    found = kernel(BASE + "add.u %2, c1.x, 1\nadd.u %3, %2, 1\nstg.u32 %1:2, c1.x, 0, 1\n")
    remove_dead(found)
    assert shown(found) == [["mov.u32u32", "mov.u32u32", "stg.u32"]]


# -- loops, conditions, neighbours


def test_what_does_not_change_leaves_all_loops():
    found = kernel(
        "mov.u32u32 %1, 0\nloop\nmov.u32u32 %2, 0\nloop\nshl.b %3, %9, 2\nadd.u %4, %3, %1\n"
        "add.u %2, %2, %4\nwhile %2\nadd.u %1, %1, 1\nwhile %1\n"
    )
    hoist(found)
    assert shown(found) == [
        ["mov.u32u32", "shl.b"], ["mov.u32u32", "add.u"], ["add.u", "cmps.s.ne", "br"],
        ["add.u", "cmps.s.ne", "br"], [],
    ]  # fmt: skip


STORE = "if %9\nstg.a.u32 %1:2, %5, %6, 0, 0, 1\nend\n"


def test_conditions_of_one_value_are_joined():
    found = kernel(BASE + STORE + "add.u %7, %6, 1\n" + STORE.replace("%6", "%7") + STORE)
    join_conditions(found)
    assert shown(found)[1:] == [["stg.a.u32"] * 3, []]
    assert [block.after for block in found.blocks] == [[1, 2], [2], []]
    assert found.blocks[0].code[-1].target == 2


@pytest.mark.parametrize(
    "between",
    ["mov.u32u32 %9, 0\n", "ldg.u32 %7, %1:2, 0, 1\n", "bar.g\n", "mov.u32u32 %5, 3\n"],
)
def test_conditions_are_not_joined_over(between):
    found = kernel(BASE + STORE + between + STORE)
    join_conditions(found)
    assert len(found.blocks) == 5


def test_conditions_of_different_values_stay():
    found = kernel(BASE + STORE + STORE.replace("%9", "%8"))
    join_conditions(found)
    assert len(found.blocks) == 5


def test_loads_and_stores_of_neighbours_are_joined():
    found = kernel(
        BASE + "shl.b %2, c1.x, 2\nldl.u32 %3, %2, 4, 1\nldl.u32 %4, %2, 0, 1\n"
        "ldl.u32 %5, %2, 12, 1\nadd.u %6, %3, %4\n"
        "stg.a.u32 %1:2, %6, %2, 0, 0, 1\nstg.a.u32 %1:2, %5, %2, 0, 1, 1\n"
    )
    join_accesses(found)
    ops = [one.op for one in found.blocks[0].code]
    assert ops.count("ldl.u32") == 2
    assert ops.count("stg.a.u32") == 1
    load = next(one for one in found if one.op == "ldl.u32")
    assert load.srcs[1:] == [Literal(0), Literal(2)]
    total = next(one for one in found if one.op == "add.u")
    assert [(s.number, s.lane) for s in total.srcs] == [
        (load.dsts[0].number, 1), (load.dsts[0].number, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("between", ["bar.g\n", "stl.u32 %8, %4, 0, 1\n"])
def test_loads_are_not_joined_over(between):
    found = kernel(f"ldl.u32 %4, %2, 0, 1\n{between}ldl.u32 %3, %2, 4, 1\n")
    join_accesses(found)
    assert sum(one.op == "ldl.u32" for one in found) == 2


def test_stores_of_copies_are_joined_that_are_made_between_them():
    found = kernel(
        "add.u %3, %3, 1\nmov.u32u32 %4, %3\nstl.u32 %2, %4, 0, 1\nmov.u32u32 %5, %3\n"
        "stl.u32 %2, %5, 4, 1\n"
    )
    join_accesses(found)
    assert sum(one.op == "stl.u32" for one in found) == 1


def test_a_store_does_not_move_behind_another_value_of_what_it_stores():
    found = kernel("stl.u32 %2, %3, 0, 1\nadd.u %3, %3, 1\nstl.u32 %2, %3, 4, 1\n")
    join_accesses(found)
    assert sum(one.op == "stl.u32" for one in found) == 2


def test_stores_are_not_joined_over_a_load():
    found = kernel("stl.u32 %2, %3, 0, 1\nldl.u32 %4, %2, 0, 1\nstl.u32 %2, %4, 4, 1\n")
    join_accesses(found)
    assert sum(one.op == "stl.u32" for one in found) == 2


# -- order


def test_instructions_that_wait_let_others_go_first():
    found = kernel("rcp %1, %9\nadd.f %2, %1, %9\nmul.f %3, %9, %9\nmul.f %4, %3, %2\n")
    schedule(found, 48)
    assert [one.op for one in found.blocks[0].code] == ["rcp", "mul.f", "add.f", "mul.f", "end"]


def test_who_has_waited_for_a_load_does_not_wait_for_it_again():
    lanes = range(4)
    used = "".join(f"max.u %{n + 10}, %8.{n}, 0x1\nadd.u %{n + 20}, %{n + 10}, %9\n" for n in lanes)
    found = kernel(f"vector %8 4\nldl.u32 %8:4, %9, 0, 4\n{used}")
    schedule(found, 48)
    ops = [one.op for one in found.blocks[0].code]
    assert ops == ["ldl.u32", *["max.u"] * 4, *["add.u"] * 4, "end"]


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ("stg.a.u32 %1:2, %8, %6, 0, 0, 1", "ldg.a.u32 %7, %1:2, %6, 0, 0, 1", True),
        ("stg.a.u32 %1:2, %8, %6, 0, 0, 1", "ldg.a.u32 %7, %2:2, %6, 0, 0, 1", False),
        ("stl.u32 %6, %8, 0, 1", "ldl.u32 %7, %6, 4, 1", True),
        ("stl.u32 %6, %8, 0, 1", "ldg.a.u32 %7, %1:2, %6, 0, 0, 1", False),
        ("bar.g", "ldg.a.u32 %7, %1:2, %6, 0, 0, 1", True),
        ("ldl.u32 %5, %6, 0, 1", "bar.g", True), ("bar.g", "stl.u32 %6, %6, 0, 1", True),
    ],
)  # fmt: skip
def test_memory_keeps_its_order_where_it_may_be_the_same(first, second, stays):
    other = BASE.replace("%1", "%2").replace("c0.x", "c0.z").replace("c0.y", "c0.w")
    text = (
        f"{BASE}{other}mov.u32u32 %6, c1.x\nrcp %8, %6\n{first}\n{second}\nstl.u32 %6, %7, 0, 1\n"
    )
    found = kernel(text)
    schedule(found, 48)
    ops = [one.op for one in found]
    before = ops.index(first.split()[0]) < ops.index(second.split()[0])
    assert before == stays or (first == "bar.g") != stays


def test_few_registers_hold_back_what_makes_values():
    loads = "".join(f"ldl.u32 %{n}, %2, {8 * n}, 1\nadd.u %1, %1, %{n}\n" for n in range(10, 60))
    text = f"mov.u32u32 %1, 0\nmov.u32u32 %2, 0\n{loads}stl.u32 %1, %1, 0, 1\n"
    wide, narrow = kernel(text), kernel(text)
    schedule(wide, 48)
    schedule(narrow, 2)
    assert _pressure(narrow) <= 9
    assert _pressure(wide) > 20


def _pressure(found):
    """The most lanes live at once."""
    return max(pressures(found, lives(found)))


# -- registers


def test_lanes_are_live_from_their_writing_to_their_last_reading():
    found = kernel("mov.u32u32 %1, 1\nloop\nadd.u %2, %1, 1\nadd.u %3, %2, %2\nwhile %3\n")
    found_lives = lives(found)
    assert gaps(found) == [0, 2, 7]
    assert found_lives[1, 0] == sum(1 << n for n in (1, 2, 3, 4, 5, 6))  # all of the loop
    assert found_lives[2, 0] == 1 << 3
    assert found_lives[3, 0] == 1 << 4
    expected = [sum(bits >> gap & 1 for bits in found_lives.values()) for gap in range(8)]
    assert pressures(found, found_lives)[:8] == expected


def test_halves_lie_in_full_registers_and_stay_below_r24():
    halves = "".join(f"mov.u16u16 %h{n}, {n}\n" for n in range(1, 150))
    uses = "".join(f"cov.u16u32 %{n + 200}, %h{n}\nstl.u32 %{n + 200}, %{n + 200}, 0, 1\n"
                   for n in range(1, 150))  # fmt: skip
    found = kernel("mov.u32u32 %999, 5\n" + halves + uses + "stl.u32 %999, %999, 0, 1\n")
    place_operands(found)
    allocate(found, 48)
    taken: dict[int, object] = {}
    for one in found:
        for dst in one.dsts:
            if one.op == "mov.u16u16":
                assert dst.half
                assert dst.units[-1] < 192
                assert not set(dst.units) & set(taken)
                taken |= dict.fromkeys(dst.units, dst)


def test_a_copy_into_a_vector_is_no_instruction():
    found = kernel(
        BASE + "add.u %3, c1.x, 1\nadd.u %4, c1.x, 2\nvector %5 2\n"
        "mov.u32u32 %5.0, %3\nmov.u32u32 %5.1, %4\nstg.u32 %1:2, %5:2, 0, 2\n"
    )
    allocate(found, 48)
    assert [one.op for one in found.blocks[0].code].count("mov.u32u32") == 2  # the address


def many(count):
    """A text in which so many values are live at once."""
    made = "".join(f"add.u %{n}, c1.x, {n}\n" for n in range(10, 10 + count))
    used = "".join(f"add.u %3, %3, %{n}\n" for n in range(10, 10 + count))
    again = used.replace("add.u", "xor.b")
    return BASE + "mov.u32u32 %3, 0\n" + made + used + again + "stg.u32 %1:2, %3, 0, 1\n"


def test_values_that_find_no_register_go_to_private_memory():
    found = kernel(many(220))
    place_operands(found)
    allocate(found, 48)
    assert found.private > 0
    assert found.private % 4 == 0
    ops = [one.op for one in found]
    assert "stp.u32" in ops
    assert "ldp.u32" in ops
    last = max(x.units[-1] for one in found for x in (*one.dsts, *one.srcs)
               if isinstance(x, Register))  # fmt: skip
    assert last < 2 * 4 * 48


def test_too_many_values_are_an_error_that_names_the_kernel():
    vectors = "".join(f"vector %{n} 4\nldg.u32 %{n}:4, %1:2, {16 * n}, 4\n" for n in range(10, 70))
    uses = "".join(f"stg.u32 %1:2, %{n}:4, {16 * n}, 4\n" for n in range(10, 70))
    with pytest.raises(DeviceError, match="k needs more than 48 vec4 of registers"):
        machine_code(kernel(BASE + vectors + "bar.g\n" + uses), A630)


@pytest.mark.parametrize(("name", "most"), [("a610", 12), ("a630", 48), ("a650", 32)])
def test_a_large_workgroup_leaves_each_work_item_fewer_registers(name, most):
    text = HEAD.replace("work_items=64", "work_items=256") + many(180)
    entry = machine_code(parse(text)[0], adreno_chip(name))
    assert entry.registers <= most
    assert (entry.private > 0) == (4 * most < 180)


# -- waits


def test_cycles_until_a_result_is_ready():
    assert words("add.u %1, c0.x, 1\nadd.u %2, %1, 2\nmad.f32 %3, c0.x, %2, %2\n" + STORE_3) == [
        "(nop3) add.u r0.x, c0.x, 1", "(nop3) add.u r0.x, r0.x, 2",
        "(nop3) mad.f32 r0.x, c0.x, r0.x, r0.x", "(rpt2)nop", "stl.u32 l[r0.x], r0.x, 1", "end",
    ]  # fmt: skip


STORE_3 = "stl.u32 %3, %3, 0, 1\n"


def test_a_sum_is_read_two_cycles_later_than_its_factors():
    found = kernel("")
    found.blocks[0].code[:0] = [
        Instruction("add.f", [Register(0)], [Register(9), Register(9)]),
        Instruction("mad.f32", [Register(1)], [Register(9), Register(9), Register(0)]),
    ]
    insert_waits(found)
    assert found.blocks[0].code[0].nop == 1


def test_special_functions_and_memory_are_waited_for_by_flags():
    assert words("rcp %1, c0.x\nadd.f %2, %1, %1\nldl.u32 %3, %2, 0, 1\n" + STORE_3) == [
        "mov.u32u32 r0.x, c0.x", "(rpt5)nop", "rcp r0.x, r0.x", "(ss)(nop3) add.f r0.x, r0.x, r0.x",
        "(rpt2)nop", "ldl.u32 r0.x, l[r0.x], 1", "(ss)nop", "stl.u32 l[r0.x], r0.x, 1", "end",
    ]  # fmt: skip


def test_a_register_that_is_still_read_is_waited_for():
    found = kernel("")
    found.blocks[0].code[:0] = [
        Instruction("stl.u32", [], [Register(0), Register(1), Literal(0), Literal(1)]),
        Instruction("mov.u32u32", [Register(1)], [Literal(0)]),
        Instruction("ldg.u32", [Register(3)], [Register(4, 2), Literal(0), Literal(1)]),
        Instruction("add.u", [Register(5)], [Register(3), Register(3)]),
        Instruction("mov.u32u32", [Register(4)], [Literal(0)]),
    ]
    insert_waits(found)
    code = found.blocks[0].code
    assert [one.ss for one in code] == [False, True, False, False, False, False]
    assert [one.sy for one in code] == [False, False, False, True, False, False]


def test_what_a_loop_leaves_open_is_waited_for_in_its_next_step():
    found = kernel("loop\nadd.f %1, %2, %2\nldg.u32 %2, %3:2, 0, 1\nwhile %9\n")
    found.widths[3] = 2
    allocate(found, 48)
    insert_waits(found)
    first = next(one for one in found if one.op == "add.f")
    assert first.sy


def test_work_items_meet_behind_conditions():
    lines = words("cmps.s.lt %1, c0.x, 5\nif %1\nadd.u %3, c0.x, 1\n" + STORE_3 + "end\n")
    assert lines[-1] == "(jp)end"
    assert any(line.startswith("br !p0.x") for line in lines)


# -- objects


def test_objects_are_read_as_they_were_written():
    entries = [
        KernelCode(
            "k_0", 128, 2, 1, 17, 3, 64, 16, 6400, 9, 2, True, (1, 0xFFFFFFFF),
            (1 << 63, 5), (ImageSlot(1, True, 0, 3, 4, 32), ImageSlot(0, False, 0, 16384, 1, 16)),
        ),
        KernelCode("ö", 1, 0, 0, 1, 0, 64, 0, 0, 0, 0, False, (), ()),
    ]  # fmt: skip
    assert unpack(pack(entries)) == entries
    assert unpack(pack([])) == []


def test_broken_objects_are_errors():
    image = ImageSlot(0, True, 0, 3, 4, 32)
    whole = pack([KernelCode("k", 64, 1, 0, 1, 0, 64, 0, 0, 1, 1, False, (7,), (1, 2), (image,))])
    with pytest.raises(InternalError, match="no object"):
        unpack(b"\x7fELF" + whole)
    for size in range(len(whole)):
        with pytest.raises(InternalError):
            unpack(whole[:size])
    with pytest.raises(InternalError, match="bytes behind its end"):
        unpack(whole + b"\0")


def test_an_entry_has_the_figures_of_its_kernel():
    head = "kernel k work_items=128 buffers=3 variables=2 shared=512\n"
    text = "if r0.x\nadd.u %2, c2.x, 0x12345\nbar.g\nstl.u32 %2, %2, 0, 1\nend\n"
    entry = machine_code(kernel(text, head), A630)
    assert entry.name == "k"
    assert (entry.work_items, entry.buffers, entry.variables) == (128, 3, 2)
    assert (entry.registers, entry.branches, entry.wave) == (1, 1, 128)
    assert (entry.private, entry.shared, entry.has_barrier) == (0, 512, True)
    assert (entry.first_literal, entry.constants, entry.literals) == (2, 3, (0x12345,))


@pytest.mark.parametrize("name", ADRENO_CHIPS)
def test_a_wave_is_not_larger_than_its_chip_has(name):
    chip = adreno_chip(name)
    text = HEAD.replace("work_items=64", "work_items=128")
    assert machine_code(parse(text)[0], chip).wave == chip.wave
    assert machine_code(parse(HEAD)[0], chip).wave == 64


def test_threads_compile_the_same():
    compiler = IR3Compiler(adreno_target("a630"))
    text, found = HEAD + many(60), []
    threads = [threading.Thread(target=lambda: found.append(compiler.compile(text)))
               for _ in range(4)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
