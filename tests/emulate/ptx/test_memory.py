"""Loads, stores, atomics, addresses, variables, and what is reported about wrong accesses."""

import numpy as np
import pytest

from treadle.emulate.cuda import EmulatedDriver
from treadle.emulate.ptx.front_end import PTX
from treadle.emulate.simt import execute
from treadle.emulate.simt.support import support_symbols
from treadle.runtime.cuda.driver import DriverError

HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n"


def kernel(body, before="", parameters=".param .u64 p"):
    return f"""{HEAD}{before}
.visible .entry k({parameters}) {{
.reg .b64 %x<6>; .reg .b32 %r<12>; .reg .b16 %h<6>; .reg .b64 %d<4>; .reg .pred %p<3>;
mov.u32 %r0, %tid.x; ld.param.u64 %x0, [p];
{body}
ret; }}"""


@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
@pytest.mark.parametrize(
    ("kind", "registers"),
    [("u8", "%h0"), ("u16", "%h0"), ("u32", "%r1"), ("u64", "%x3"), ("v2.u16", "{%h0, %h1}"),
     ("v2.u32", "{%r1, %r2}"), ("v4.u32", "{%r1, %r2, %r3, %r4}"), ("v2.u64", "{%x3, %x4}"),
     ("v4.u8", "{%h0, %h1, %h2, %h3}")],
)  # fmt: skip
def test_every_width_in_every_space(gpu, space, kind, registers):
    """Bytes go through one space and come back."""
    lanes, element = kind[1:].split(".") if kind[0] == "v" else ("1", kind)
    nbytes = int(lanes) * int(element[1:]) // 8
    through = {
        "global": "",
        "shared": f"mad.lo.u32 %r5, %r0, {nbytes}, tile; st.shared.{kind} [%r5], {registers};"
        f"ld.shared.{kind} {registers}, [%r5];",
        "local": f"st.local.{kind} [mine+16], {registers}; ld.local.{kind} {registers}, [mine+16];",
        "generic": f"mov.u64 %x2, mine; cvta.local.u64 %x2, %x2; st.{kind} [%x2], {registers};"
        f"ld.{kind} {registers}, [%x2];",
    }[space]
    through = through.replace("mad.lo.u32 %r5, %r0", "mov.u32 %r6, tile; mad.lo.u32 %r5, %r0")
    through = through.replace(", tile; st", ", %r6; st")
    code = f"""mad.wide.u32 %x1, %r0, {nbytes}, %x0; ld.global.{kind} {registers}, [%x1];
    {through} st.global.{kind} [%x1+{64 * nbytes}], {registers};"""
    before = ".shared .align 16 .b8 tile[1024];"
    text = kernel(".local .align 16 .b8 mine[32];" + code, before)
    data = np.random.default_rng(1).integers(0, 256, 128 * nbytes, dtype="u1")
    (found,) = gpu.launch(text, "k", 1, 64, data)
    assert (found[64 * nbytes :] == data[: 64 * nbytes]).all()


def test_narrow_loads_extend_by_their_type(gpu):
    code = """add.u64 %x1, %x0, %x5; ld.global.s8 %r1, [%x0]; ld.global.u8 %r2, [%x0];
    st.global.u32 [%x0+4], %r1; st.global.u32 [%x0+8], %r2; mov.u32 %r3, 0x12345678;
    st.global.u8 [%x0+12], %r3;"""
    (found,) = gpu.launch(kernel(code), "k", 1, 1, np.array([0x80, 0, 0, 0], "u4"))
    assert found.tolist() == [0x80, 0xFFFFFF80, 0x80, 0x78]


def test_an_address_of_32_bits_may_be_below_zero_before_its_offset(gpu):
    code = """mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; sub.u32 %r3, %r1, %r2; sub.u32 %r3, %r3, 252;
    st.shared.u32 [%r3+376], %r0; bar.sync 0; add.u32 %r4, %r1, %r2; ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %x1, %r0, 4, %x0; st.global.u32 [%x1], %r5;"""
    text = kernel(code, ".shared .align 4 .b8 tile[128];")
    (found,) = gpu.launch(text, "k", 1, 32, np.zeros(32, "u4"))
    assert found.tolist() == list(range(31, -1, -1))


def test_generic_addresses_find_their_space(gpu):
    code = """mov.u32 %r1, tile; cvta.shared.u64 %x1, %x2; cvt.u64.u32 %x2, %r1;
    cvta.shared.u64 %x1, %x2; mad.wide.u32 %x3, %r0, 4, %x1; st.u32 [%x3], %r0;
    isspacep.shared %p0, %x3; isspacep.global %p1, %x3; isspacep.global %p2, %x0;
    ld.u32 %r2, [%x3]; @!%p0 mov.u32 %r2, 1000; @%p1 mov.u32 %r2, 1001; @!%p2 mov.u32 %r2, 1002;
    cvta.to.shared.u64 %x4, %x3; cvt.u32.u64 %r4, %x4; ld.shared.u32 %r3, [%r4];
    add.u32 %r2, %r2, %r3; mad.wide.u32 %x1, %r0, 4, %x0; st.u32 [%x1], %r2;"""
    text = kernel(code, ".shared .align 4 .b8 tile[128];")
    (found,) = gpu.launch(text, "k", 1, 32, np.zeros(32, "u4"))
    assert found.tolist() == [2 * i for i in range(32)]


def test_variables_of_the_module_have_their_initial_values(gpu):
    before = """.global .align 4 .u32 table[4] = {10, 0x20, 030, -1};
    .const .align 8 .f32 half = 0f3F000000; .global .align 8 .u64 where = table;
    .global .align 1 .b8 text[4] = {104, 105};"""
    code = """ld.global.u64 %x1, [where]; ld.global.u32 %r1, [%x1+4]; ld.const.u32 %r2, [half];
    ld.global.u32 %r3, [table+8]; ld.global.u32 %r4, [text]; mov.u64 %x2, table;
    ld.global.u32 %r5, [%x2+12]; st.global.v4.u32 [%x0], {%r1, %r2, %r3, %r4};
    st.global.u32 [%x0+16], %r5;"""
    (found,) = gpu.launch(kernel(code, before), "k", 1, 1, np.zeros(5, "u4"))
    assert found.tolist() == [0x20, 0x3F000000, 0o30, 104 | 105 << 8, 0xFFFFFFFF]


ATOMICS = {
    ("add", "u32"): lambda a, b: a + b, ("min", "s32"): min, ("max", "u32"): max,
    ("and", "b32"): lambda a, b: a & b, ("or", "b32"): lambda a, b: a | b,
    ("xor", "b32"): lambda a, b: a ^ b, ("exch", "b32"): lambda a, b: b,
    ("inc", "u32"): lambda a, b: 0 if a >= b else a + 1,
    ("dec", "u32"): lambda a, b: b if a == 0 or a > b else a - 1,
}  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), ATOMICS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_give_what_was_there(gpu, space, operation, kind):
    where = "%x0" if space == "global" else "%r5"
    code = f"""mov.u32 %r5, cell; ld.global.u32 %r6, [%x0]; setp.eq.u32 %p0, %r0, 0;
    @%p0 st.shared.u32 [cell], %r6; bar.sync 0; mad.wide.u32 %x1, %r0, 4, %x0;
    ld.global.u32 %r1, [%x1+4]; atom.{space}.{operation}.{kind} %r2, [{where}], %r1;
    st.global.u32 [%x1+4], %r2; bar.sync 0; ld.{space}.u32 %r6, [{where}];
    @%p0 st.global.u32 [%x0], %r6;"""
    data = np.random.default_rng(2).integers(0, 40, 33).astype("u4")
    (found,) = gpu.launch(kernel(code, ".shared .align 4 .u32 cell;"), "k", 1, 32, data)
    value, seen = int(data[0]), []
    for operand in data[1:].tolist():
        seen.append(value)
        value = ATOMICS[operation, kind](value, operand)
    assert found.tolist() == [value, *seen]


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8"), ("noftz.f16", "f2")])
def test_atomic_sums_of_floats(gpu, kind, dtype):
    register = {"f4": "%r1", "f8": "%x1", "f2": "%h1"}[dtype]
    bits = 8 * np.dtype(dtype).itemsize
    code = f"ld.global.b{bits} {register}, [%x0+8]; red.global.add.{kind} [%x0], {register};"
    data = np.zeros(16 // np.dtype(dtype).itemsize, dtype)
    data[8 // data.itemsize] = 0.5
    (found,) = gpu.launch(kernel(code), "k", 4, 64, data)
    assert found[0] == 128


def test_vectors_are_added_each_element_by_itself(gpu):
    code = """ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%x0+16];
    atom.global.add.v4.f32 {%f5, %f6, %f7, %f8}, [%x0], {%f1, %f2, %f3, %f4};
    red.global.v2.f32.add [%x0+8], {%f1, %f2};"""
    code = code.replace("v2.f32.add", "add.v2.f32")
    data = np.array([0, 0, 0, 0, 1, 2, 4, 8], "f4")
    before = ".reg .f32 %f<9>;"
    (found,) = gpu.launch(kernel(before + code), "k", 2, 32, data)
    assert found.tolist() == [64, 128, 256 + 64, 512 + 128, 1, 2, 4, 8]


def test_compare_and_swap_across_blocks(gpus):
    """A lock that blocks of several host threads take: nobody's increment is lost."""
    code = """NEXT: ld.relaxed.gpu.global.u32 %r1, [%x0]; add.u32 %r2, %r1, 1;
    atom.global.cas.b32 %r3, [%x0], %r1, %r2; setp.ne.u32 %p0, %r3, %r1; @%p0 bra NEXT;"""
    (found,) = gpus("sm_90", threads=2).launch(kernel(code), "k", 40, 32, np.zeros(1, "u4"))
    assert found[0] == 40 * 32


def test_asynchronous_copies_fill_with_zero(gpu):
    code = """mov.u32 %r5, tile; mad.lo.u32 %r1, %r0, 16, %r5; mad.wide.u32 %x1, %r0, 16, %x0;
    and.b32 %r2, %r0, 1; mul.lo.u32 %r2, %r2, 16; setp.eq.u32 %p0, %r0, 4; @%p0 mov.u32 %r2, 6;
    cp.async.cg.shared.global [%r1], [%x1], 16, %r2; cp.async.commit_group;
    cp.async.wait_group 0; bar.sync 0;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r1]; st.global.v4.u32 [%x1], {%r1, %r2, %r3, %r4};"""
    data = np.arange(1, 257, dtype="u2")
    text = kernel(code, ".shared .align 16 .b8 tile[512];")
    (found,) = gpu.launch(text, "k", 1, 32, data)
    expected = data.reshape(32, 8).copy()
    expected[0::2] = 0
    expected[4, :3] = data.reshape(32, 8)[4, :3]
    assert (found.reshape(32, 8) == expected).all()


def test_dynamic_shared_memory_lies_behind_the_static(gpu):
    code = """mov.u32 %r1, more; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;
    st.shared.u32 [few], %r0; st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r3, [%r1];
    mad.wide.u32 %x1, %r0, 4, %x0; st.global.u32 [%x1], %r3;"""
    text = kernel(code, ".shared .align 4 .b8 few[4]; .extern .shared .align 16 .b8 more[];")
    (found,) = gpu.launch(text, "k", 1, 32, np.zeros(32, "u4"), shared=128)
    assert found.tolist() == list(range(32))


def test_functions_are_called_with_parameters_in_memory(gpu):
    before = """.func (.param .b32 out) twice(.param .b32 in) { .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u32 %r1, [in]; setp.gt.u32 %p, %r1, 20; @%p bra BIG; shl.b32 %r2, %r1, 1;
    st.param.b32 [out], %r2; ret; BIG: st.param.b32 [out], 7; ret; }"""
    code = """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call.uni (b), twice, (a);
    ld.param.b32 %r1, [b]; } { .reg .b32 %r1; mov.u32 %r1, 99; }
    mad.wide.u32 %x1, %r0, 4, %x0; st.global.u32 [%x1], %r1;"""
    (found,) = gpu.launch(kernel(code, before), "k", 1, 32, np.zeros(32, "u4"))
    assert found.tolist() == [2 * i if i <= 20 else 7 for i in range(32)]


# -- what is wrong


# Each thread writes its number to a word of its own.
PUT = """shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
st.shared.u32 [%r1], %r0;"""
ADDRESS, ALIGN = "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS"
FAILED = "CUDA_ERROR_LAUNCH_FAILED"
FAULTS = {
    "past the end": (
        "mad.wide.u32 %x1, %r0, 4, %x0; st.global.u32 [%x1+256], %r0;",
        ADDRESS,
        r"thread \(32, 0, 0\).*4 bytes .* right behind the allocation of 384 bytes .*line 8",
    ),
    "null": ("mov.u64 %x1, 0; ld.global.u32 %r1, [%x1+8];", ADDRESS, "a null pointer"),
    "misaligned": ("ld.global.u32 %r1, [%x0+2];", ALIGN, "no multiple of 4"),
    "misaligned vector": (
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x0+8];",
        ALIGN,
        "no multiple of 16",
    ),
    "shared": (
        "mov.u32 %r1, tile; st.shared.u32 [%r1+516], %r0;",
        ADDRESS,
        "offset 516 of shared memory, of which the block has 512",
    ),
    "local": (
        ".local .align 4 .b8 mine[8]; mov.u64 %x1, mine; st.local.u32 [%x1+400], %r0;",
        ADDRESS,
        "offset 400 of local memory, of which a thread has 16",
    ),
    "unwritten": ("ld.shared.u32 %r1, [tile+8];", FAILED, "that the block never wrote"),
    "write then read": (
        PUT
        + """xor.b32 %r1, %r1, 128; bar.warp.sync -1;
        setp.ge.u32 %p0, %r0, 32; @%p0 ld.shared.u32 %r3, [%r1];""",
        FAILED,
        r"thread \(32, 0, 0\): a data race with thread \(0, 0, 0\), which writes it",
    ),
    "read then write": (
        PUT
        + """bar.sync 0; ld.shared.u32 %r3, [tile];
        setp.eq.u32 %p0, %r0, 70; @%p0 st.shared.u32 [tile], %r0;""",
        FAILED,
        "a data race with",
    ),
    "lanes without a .sync": (
        PUT + "xor.b32 %r1, %r1, 4; ld.shared.u32 %r3, [%r1];",
        FAILED,
        r"thread \(0, 0, 0\): a data race with thread \(1, 0, 0\)",
    ),
    "trap": ("setp.eq.u32 %p0, %r0, 65; @%p0 trap;", FAILED, r"thread \(65, 0, 0\): trap"),
    "barriers apart": (
        "setp.lt.u32 %p0, %r0, 40; @%p0 bra A; bar.sync 0; bra B; A: bar.sync 0; B:",
        FAILED,
        "threads of warp 1 wait at different",
    ),
    "deadlock": (
        "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 1; bra B; A: bar.sync 2; B:",
        FAILED,
        "all threads that are left wait at barriers",
    ),
    "lanes that never come": (
        """setp.lt.u32 %p0, %r0, 8; @%p0 bra A; bar.sync 0;
        A: @!%p0 bra B; bar.warp.sync -1; B:""",
        FAILED,
        "lanes 0, 1, 2, 3, 4, 5, 6, 7 wait at an instruction",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_the_context_stays_broken(gpu, name):
    code, error, message = FAULTS[name]
    text = kernel(code, ".shared .align 4 .b8 tile[512];")
    with pytest.raises(DriverError, match=message) as caught:
        gpu.launch(text, "k", 1, 96, np.zeros(96, "u4"))
    assert caught.value.code == error
    assert "kernel k, block (0, 0, 0)" in str(caught.value)
    with pytest.raises(DriverError, match=message) as again:
        gpu.context.synchronize()
    assert again.value.code == error


def test_two_writes_of_one_value_are_no_race(gpu):
    code = (
        "st.shared.u32 [tile], 7; bar.sync 0; ld.shared.u32 %r1, [tile]; st.global.u32 [%x0], %r1;"
    )
    text = kernel(code, ".shared .align 4 .b8 tile[512];")
    (found,) = gpu.launch(text, "k", 1, 96, np.zeros(1, "u4"))
    assert found[0] == 7


def test_writes_of_vectors_are_compared_word_by_word(gpu):
    shared = ".shared .align 16 .b8 tile[512];"
    load = "bar.sync 0; ld.shared.u32 %r1, [tile + 12]; st.global.u32 [%x0], %r1;"
    same = kernel("st.shared.v4.u32 [tile], {1, 2, 3, 4};" + load, shared)
    (found,) = gpu.launch(same, "k", 1, 96, np.zeros(1, "u4"))
    assert found[0] == 4
    other = kernel("shr.u32 %r2, %r0, 5; st.shared.v4.u32 [tile], {1, 2, 3, %r2};" + load, shared)
    with pytest.raises(DriverError, match="a data race with"):
        gpu.launch(other, "k", 1, 96, np.zeros(1, "u4"))


def test_a_kernel_that_never_ends_is_stopped(gpu, monkeypatch):
    monkeypatch.setattr("treadle.emulate.simt.execute.TURNS", 20)
    with pytest.raises(DriverError, match="does not end") as caught:
        gpu.launch(kernel("A: bra A;"), "k", 1, 32, np.zeros(1, "u4"))
    assert caught.value.code == "CUDA_ERROR_LAUNCH_TIMEOUT"


def test_memory_that_was_freed_is_no_longer_there(compile_ir):
    context = EmulatedDriver("sm_90", compile_ir=compile_ir).open(0)
    kernel_ = context.load(kernel("ld.global.u32 %r1, [%x0];").encode()).function("k")
    address = context.alloc(64, None)
    context.launch(kernel_, (1, 1, 1), (1, 1, 1), 0, None, [("address", address)])
    context.free(address, None)
    with pytest.raises(DriverError, match="nothing is allocated"):
        context.launch(kernel_, (1, 1, 1), (1, 1, 1), 0, None, [("address", address)])


def test_a_kernel_imports_no_function_that_it_does_not_call(run, monkeypatch):
    load, imported = execute.load_object, []

    def counted(code, symbols, imports=None):
        imported.append(set(imports or ()))
        return load(code, symbols, imports)

    monkeypatch.setattr(execute, "load_object", counted)
    numbers = np.arange(32, dtype=np.int32)
    found = run("add.s32 %d, %a, %b;", numbers, numbers, out=np.int32)
    np.testing.assert_array_equal(found, 2 * numbers)
    assert 0 < len(imported[-1]) < len(support_symbols(PTX)) // 4


def test_threads_of_a_warp_may_access_different_spaces_by_generic_addresses(gpu):
    """Odd threads global memory, even ones shared memory, in one instruction."""
    code = """.shared .align 4 .b8 tile[128];
        mov.u32 %r0, %tid.x; mul.wide.u32 %x1, %r0, 4; add.u64 %x2, %x0, %x1;
        mov.u64 %x3, tile; cvta.shared.u64 %x3, %x3; add.u64 %x3, %x3, %x1;
        and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 1; selp.b64 %x4, %x2, %x3, %p0;
        add.u32 %r2, %r0, 100; st.u32 [%x4], %r2; ld.u32 %r3, [%x4];
        add.u64 %x2, %x2, 128; st.global.u32 [%x2], %r3;"""
    (found,) = gpu.launch(kernel(code), "k", 1, 32, np.zeros(64, np.uint32))
    threads = np.arange(32)
    np.testing.assert_array_equal(found[:32], np.where(threads % 2, threads + 100, 0))
    np.testing.assert_array_equal(found[32:], threads + 100)


def test_a_register_of_eight_bits_lives_across_a_branch(gpu):
    code = """.reg .b8 %q; mul.wide.u32 %x1, %r0, 4; add.u64 %x2, %x0, %x1;
        ld.global.u8 %q, [%x2]; add.u32 %r3, %r0, 256; setp.lt.u32 %p0, %r0, 7; @%p0 bra L;
        add.u32 %r3, %r3, 512; L: st.global.u32 [%x2], %r3; st.global.u8 [%x2], %q;"""
    given = np.arange(32, dtype=np.uint32) + 64
    (found,) = gpu.launch(kernel(code), "k", 1, 32, given)
    threads = np.arange(32)
    np.testing.assert_array_equal(found, np.where(threads < 7, 256, 768) + threads + 64)
