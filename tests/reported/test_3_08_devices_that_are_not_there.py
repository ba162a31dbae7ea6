"""A device that cannot be used is said at the line that asks for it, in one sentence."""

import os
import subprocess
import sys

import pytest

CHOOSING = ("DEV", "CPU", "CUDA", "CL", "GPU", "LLVM", "CLANG", "WEBGPU", "EMULATE", "DEBUG")


def run(code, **variables):
    kept = {k: v for k, v in os.environ.items() if k not in CHOOSING}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr.splitlines()


@pytest.fixture(scope="module")
def no_cuda():
    """Not even an emulated one: these programs run without EMULATE."""
    out, _ = run("from treadle import Device\ntry: print(Device['CUDA'].name)\nexcept Exception: 0")
    if out:
        pytest.skip("there is an NVIDIA GPU here")


@pytest.mark.parametrize(
    "made",
    [
        "Tensor.ones(2, device='cuda')", "Tensor([1.0], device='CUDA')",
        "Tensor.eye(2, device='CUDA')", "Tensor.rand(2, device='CUDA')",
        "Tensor([1.0]).to('CUDA')", "Tensor.arange(3, device='CUDA')",
    ],
)  # fmt: skip
def test_3_08_a_device_that_is_not_there_fails_where_it_is_named(made, no_cuda):
    _, lines = run(f"from treadle import Tensor\n{made}\nprint('went on')")
    assert lines[-1].startswith("treadle.errors.DeviceError: CUDA")
    assert 'File "<string>", line 2, in <module>' in lines[1]


def test_3_08_a_missing_gpu_is_a_sentence_and_not_the_drivers_traceback(no_cuda):
    code = "from treadle import Tensor\nTensor([1, 2]).tolist()"
    _, lines = run(code, CUDA="1")
    assert lines[-1].startswith("treadle.errors.DeviceError: CUDA")
    assert len(lines) <= 8
    _, lines = run(code, CUDA="1", DEBUG="1")
    assert len(lines) > 8  # all of it, for whoever looks for the cause


@pytest.mark.parametrize("variable", ["QCOM=1", "QCOM_IR3=1"])
def test_3_08_a_runtime_whose_driver_is_not_there_is_refused_by_name(variable):
    name, _, value = variable.partition("=")
    _, lines = run("from treadle import Tensor; Tensor.ones(2).tolist()", **{name: value})
    assert "DeviceError: QCOM: there is no /dev/kgsl-3d0" in lines[-1]


@pytest.mark.parametrize("slip", ["DEBG", "DEBUGS", "DEBGU", "DEBUF"])
def test_3_08_a_near_miss_of_a_setting_is_reported(slip):
    out, lines = run("from treadle.config import settings; print(settings.DEBUG)", **{slip: "2"})
    assert out == "0\n"
    assert any(f"{slip} means nothing to treadle; did you mean DEBUG=2?" in line for line in lines)


@pytest.mark.parametrize("other", [{"TEAM": "2"}, {"DEBUGGER": "2"}, {"DEBG": "yes please"}])
def test_3_08_a_programs_own_variables_are_left_alone(other):
    _, lines = run("from treadle.config import settings; settings.DEBUG", **other)
    assert lines == []
