"""The emulated driver as the CUDA runtime sees it: devices, memory, errors, graphs."""

import numpy as np
import pytest

from treadle.emulate.cuda import EmulatedDriver
from treadle.runtime.cuda.driver import DriverError

FILL = """.version 8.0
.target {target}
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 v) {{ .reg .b64 %x; .reg .b32 %v, %i;
ld.param.u64 %x, [p]; ld.param.u32 %v, [v]; mov.u32 %i, %tid.x; mad.wide.u32 %x, %i, 4, %x;
st.global.u32 [%x], %v; ret; }}"""


@pytest.fixture
def context(compile_ir):
    return EmulatedDriver("sm_80", compile_ir=compile_ir).open(0)


def words(context, address, count):
    found = np.empty(count, "u4")
    context.copy_out(found.ctypes.data, address, found.nbytes, None)
    return found.tolist()


def test_devices_say_that_they_are_emulated():
    for arch, capability in (("sm_75", (7, 5)), ("sm_90a", (9, 0)), ("sm_120", (12, 0))):
        driver = EmulatedDriver(arch, devices=2)
        assert [d.capability for d in driver.devices()] == [capability] * 2
        assert all(d.is_emulated and d.name.startswith("emulated NVIDIA") for d in driver.devices())
    with pytest.raises(ValueError, match=r"'sm_35' is emulated; there are sm_75"):
        EmulatedDriver("sm_35")


def test_visible_devices_are_respected(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert [d.pci for d in EmulatedDriver(devices=3).devices()] == ["0000:03:00.0", "0000:01:00.0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,7,1")
    assert len(EmulatedDriver(devices=3).devices()) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    driver = EmulatedDriver()
    assert len(driver.devices()) == 0
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_DEVICE"):
        driver.open(0)


def test_fresh_memory_is_poisoned_and_aligned(context):
    a, b = context.alloc(20, None), context.alloc(20, None)
    assert a % 256 == b % 256 == 0
    assert words(context, a, 5) == [0xFFFFFFFF] * 5
    assert context.owner_of(a + 19) == (0, a, 20)
    assert context.owner_of(a + 20) is None
    free, total = context.memory_info()
    assert total - free == 40
    context.free(a, None)
    assert context.owner_of(a) is None
    with pytest.raises(DriverError, match="nothing is allocated"):
        context.free(a, None)


def test_memory_runs_out(context):
    with pytest.raises(DriverError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        context.alloc(context.memory_info()[1] + 1, None)


def test_a_copy_stays_inside_its_allocation(context):
    a, data = context.alloc(16, None), np.zeros(8, "u4")
    with pytest.raises(DriverError, match="not inside one allocation") as caught:
        context.copy_in(a, data.ctypes.data, 17, None)
    assert caught.value.code == "CUDA_ERROR_INVALID_VALUE"
    context.copy_in(a + 4, data.ctypes.data, 12, None)


def test_graphs_run_their_kernels_in_order(context):
    kernel = context.load(FILL.format(target="sm_80").encode()).function("fill")
    a, b = context.alloc(16, None), context.alloc(16, None)
    graph = context.new_graph()
    first = context.add_kernel(
        graph, [], kernel, (1, 1, 1), (4, 1, 1), 0, [("address", a), ("int32", 1)]
    )
    context.add_kernel(
        graph, [first], kernel, (1, 1, 1), (2, 1, 1), 0, [("address", a), ("int32", 2)]
    )
    executable = context.instantiate(graph)
    context.launch_graph(executable, None)
    assert words(context, a, 4) == [2, 2, 1, 1]
    context.update_kernel(executable, first, [("address", b), ("int32", 7)])
    context.launch_graph(executable, None)
    assert words(context, b, 4) == [7] * 4
    context.delete_graph(graph, executable)


@pytest.mark.parametrize(
    ("image", "code", "message"),
    [(b"\x7fELF...", "CUDA_ERROR_NO_BINARY_FOR_GPU", "machine code"),
     (b"nonsense {", "CUDA_ERROR_INVALID_PTX", "line 1: 'nonsense' begins nothing"),
     (b"\xff\xfe", "CUDA_ERROR_INVALID_IMAGE", "cuModuleLoadData"),
     (FILL.format(target="sm_90").encode(), "CUDA_ERROR_NO_BINARY_FOR_GPU", "does not run on"),
     (FILL.format(target="sm_75a").encode(), "CUDA_ERROR_NO_BINARY_FOR_GPU", "sm_75a")],
)  # fmt: skip
def test_what_cannot_be_loaded(context, image, code, message):
    with pytest.raises(DriverError, match=message) as caught:
        context.load(image)
    assert caught.value.code == code


def test_older_ptx_runs_on_newer_devices(context):
    module = context.load(FILL.format(target="sm_75").encode())
    assert module.function("fill").facts.most_threads == 1024
    with pytest.raises(DriverError, match="CUDA_ERROR_NOT_FOUND"):
        module.function("empty")


@pytest.mark.parametrize(
    ("code", "message"),
    [("wonder.u32 %v, %v;", "line 6: wonder.u32 is not emulated"),
     ("add.strange.u32 %v, %v, 1;", r"line 6: add.strange.u32 has .strange"),
     ("add.u32 %nothing, %v, 1;", "line 6: %nothing is declared nowhere"),
     ("add.u32 %v, %v;", "line 6: add.u32 does not take these operands"),
     ("bra AWAY;", "no label AWAY"),
     ("mov.u32 %v, %envreg2;", "%envreg2 is declared nowhere, and no special register emulated"),
     ("add.u32 %v, {%v, %i}, 1;", r"line 6: {%v, %i} is no operand that this instruction takes"),
     ("tex.2d.v4.f32.f32 {%v,%v,%v,%v}, [p, {%v,%v}];", "line 6: tex")],
)  # fmt: skip
def test_what_is_not_emulated_is_an_error_with_its_line(context, code, message):
    text = FILL.format(target="sm_80").replace("st.global", code + "\nst.global")
    kernel = context.load(text.encode()).function("fill")
    with pytest.raises(DriverError, match=message) as caught:
        context.launch(kernel, (1, 1, 1), (1, 1, 1), 0, None, [("address", 0), ("int32", 1)])
    assert caught.value.code == "CUDA_ERROR_INVALID_PTX"


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [((0, 1, 1), (1, 1, 1), 0, "grid"), ((1, 70000, 1), (1, 1, 1), 0, "grid"),
     ((1, 1, 1), (1025, 1, 1), 0, "blocks"), ((1, 1, 1), (64, 32, 1), 0, "2048 threads in a block"),
     ((1, 1, 1), (1, 1, 1), 50000, "dynamic shared memory; 49152 are allowed")],
)  # fmt: skip
def test_launches_that_no_device_takes(context, grid, block, shared, message):
    kernel = context.load(FILL.format(target="sm_80").encode()).function("fill")
    with pytest.raises(DriverError, match=message) as caught:
        context.launch(kernel, grid, block, shared, None, [("address", 0), ("int32", 1)])
    assert caught.value.code == "CUDA_ERROR_INVALID_VALUE"
    context.synchronize()  # the context is as good as before


def test_arguments_have_the_sizes_of_the_parameters(context):
    kernel = context.load(FILL.format(target="sm_80").encode()).function("fill")
    for args in ([("address", 0)], [("address", 0), ("int64", 1)]):
        with pytest.raises(DriverError, match=r"takes 2 arguments|has 4 bytes"):
            context.launch(kernel, (1, 1, 1), (1, 1, 1), 0, None, args)


def test_devices_reach_each_other_once_they_may(compile_ir):
    driver = EmulatedDriver("sm_80", devices=2, compile_ir=compile_ir)
    one, two = driver.open(0), driver.open(1)
    far = two.alloc(16, None)
    near = one.alloc(16, None)
    kernel = one.load(FILL.format(target="sm_80").encode()).function("fill")
    args = [("address", far), ("int32", 3)]
    assert one.reach_peer(two)
    one.launch(kernel, (1, 1, 1), (4, 1, 1), 0, None, args)
    one.copy_peer(near, far, two, 16, None)
    assert words(one, near, 4) == [3] * 4
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        two.launch(two.load(FILL.format(target="sm_80").encode()).function("fill"), (1, 1, 1),
                   (4, 1, 1), 0, None, [("address", near), ("int32", 3)])  # fmt: skip
