"""`python -m treadle.bench.gpu`: a dry run of all of it, and that no failure is lost on the way."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from treadle.bench.gpu import __main__ as command
from treadle.bench.gpu import amd, benchmark, findings, nv, parts, probes, record
from treadle.bench.gpu.corpus import corpus
from treadle.bench.gpu.rows import gpu_works
from treadle.bench.gpu.suite import _Outcomes
from treadle.bench.gpu.summary import as_text
from treadle.bench.libraries.tensor import TensorLibrary
from treadle.emulate.cuda import EmulatedDriver
from treadle.errors import DeviceError
from treadle.target import host_target

from ..conftest import GOLDEN

RECORDS = sorted(GOLDEN.glob("cuda/*.npz"))


@pytest.fixture(scope="module")
def emulated():
    return EmulatedDriver("sm_90a").open(0)


def test_a_dry_run_passes_and_leaves_nothing_out(tmp_path, capsys):
    pytest.importorskip("cuda.bindings")
    if host_target().arch != "x86_64":
        pytest.skip("NVRTC and the emulator are for x86-64 here")
    report, record_file = tmp_path / "gpu.json", tmp_path / "record.npz"
    status = command.main(["--emulate", "--json", str(report), "--record", str(record_file)])
    shown = capsys.readouterr().out
    assert status == 0, shown
    found = json.loads(report.read_text())
    assert set(found["parts"]) == set(parts.PARTS)
    names = {f["name"] for part in found["parts"].values() for f in part["findings"]}
    assert {work.name for work in gpu_works(small=True)} <= names
    assert "A dry run: these numbers say nothing of any GPU." in shown
    assert "| faults " in shown
    assert record_file.exists()


def test_a_dry_run_of_amds_gpus_passes(tmp_path, capsys):
    if host_target().arch != "x86_64" or sys.platform != "linux":
        pytest.skip("the emulated AMD GPU is for Linux on x86-64")
    report, names = tmp_path / "gpu.json", "AMD,AMD graphs,AMD suite"
    status = command.main(["--emulate", "--only", names, "--json", str(report)])
    shown = capsys.readouterr().out
    assert status == 0, shown
    part = json.loads(report.read_text())["parts"]["AMD"]
    assert {finding["outcome"] for finding in part["findings"]} == {"passed"}
    assert [gpu["arch"] for gpu in part["notes"]["driver"]["GPUs"]] == ["gfx1100"]
    assert "| a launch, host, AQL " in shown


class Emulated:
    """In place of the emulated GPU's process: what it writes, or its last words."""

    def __init__(self, monkeypatch, results, says=""):
        self._results, self._says = results, says
        device = SimpleNamespace(node=SimpleNamespace(arch="gfx1151"))
        monkeypatch.setattr(amd, "_device", lambda: device)
        monkeypatch.setattr(amd.subprocess, "run", self._run)

    def _run(self, command, env, **_):
        assert env["EMULATE"] == "gfx1151"
        if not self._says:
            np.savez(command[-1].split("'")[1], **self._results)
        return SimpleNamespace(returncode=bool(self._says), stderr=self._says)


def results_with(name, value):
    names = amd._exact() | amd._near()
    return {one: np.float32([1.0 + (value if one == name else 0.0)]) for one in names}


def test_results_are_the_emulated_gpus_or_near_where_hardware_approximates(monkeypatch):
    Emulated(monkeypatch, results_with("", 0.0))
    for name, value in [("", 0.0), ("softmax", 1e-6)]:
        monkeypatch.setattr(amd, "_results", lambda n=name, v=value: results_with(n, v))
        amd._beside_emulated()
    for name, value in [("quotient", 1e-6), ("softmax", 1e-2)]:
        monkeypatch.setattr(amd, "_results", lambda n=name, v=value: results_with(n, v))
        with pytest.raises(AssertionError, match=name):
            amd._beside_emulated()


def test_a_chip_that_is_not_emulated_costs_the_comparison_alone(monkeypatch):
    monkeypatch.setattr(amd, "_results", dict)
    Emulated(monkeypatch, {}, "DeviceError: AMD: no AMD GPU of 'gfx1151' is emulated; there are")
    with pytest.raises(findings.Skipped, match="gfx1151"):
        amd._beside_emulated()
    Emulated(monkeypatch, {}, "MemoryError")
    with pytest.raises(AssertionError, match="MemoryError"):
        amd._beside_emulated()


def found_part(name, *found):
    return parts.PartResult(parts.PARTS[name], 3.0, [findings.Finding(*one) for one in found])


@pytest.fixture
def terminated():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_what_is_done_is_shown_when_the_command_is_ended(monkeypatch, capsys, tmp_path, terminated):
    def ended(*_):
        yield found_part("graphs", ("a step", "passed"), ("another", "failed", 1.0, "it is wrong"))
        os.kill(os.getpid(), signal.SIGTERM)
        yield found_part("interop", ("never", "passed"))

    monkeypatch.setattr(command, "run_parts", ended)
    path = tmp_path / "no such folder" / "gpu.json"
    assert command.main(["--emulate", "--only", "graphs,interop", "--json", str(path)]) == 1
    shown = capsys.readouterr()
    line = "graphs: 1 passed, 1 failed, in 3 s\n* failed: graphs: another: it is wrong\n"
    assert shown.err.startswith(line + f"{path} cannot be written: ")
    assert "stopped: what follows is what was found before" in shown.err
    assert "| graphs " in shown.out
    assert "* failed: graphs: another: it is wrong" in shown.out
    assert "interop" not in shown.out


def test_a_peer_that_is_broken_costs_its_own_columns(monkeypatch, tmp_path):
    def broken():
        raise RuntimeError("its plugin is of another version")

    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(benchmark, "_pytorch", broken)
    monkeypatch.setattr(benchmark, "_jax", lambda: None)
    path = str(tmp_path / "findings")
    assert list(benchmark._libraries(findings.Findings(path, 9.0, True))) == ["treadle"]
    found, _ = findings.read_findings(path)
    assert [(f.name, f.outcome, f.message) for f in found] == [
        ("torch", "skipped", "RuntimeError: its plugin is of another version"),
        ("jax", "skipped", "jax sees no CUDA device"),
    ]


# -- parts ------------------------------------------------------------------------------------


def test_an_unknown_part_is_refused(capsys):
    assert command.main(["--only", "abacus"]) == 2
    assert "no part is called 'abacus'; there are: graphs," in capsys.readouterr().err


def no_driver():
    raise DeviceError("CUDA: there is no driver here; install one")


def no_file():
    raise DeviceError("AMD: there is no /dev/kfd; load one")


@pytest.mark.parametrize("only", [[], ["--only", "graphs,AMD"]])
def test_without_a_gpu_it_says_so_at_once(monkeypatch, capsys, only):
    monkeypatch.setattr(command, "_describe_cuda", no_driver)
    monkeypatch.setattr(command, "_describe_amd", no_file)
    assert command.main(only) == 2
    shown = capsys.readouterr().err
    assert shown == (
        "CUDA: there is no driver here; install one\nAMD: there is no /dev/kfd; load one\n"
        "--emulate makes a dry run without a GPU\n"
    )


@pytest.mark.parametrize("maker", ["CUDA", "AMD"])
def test_the_parts_of_gpus_that_are_there_run(monkeypatch, capsys, tmp_path, terminated, maker):
    ran = []
    monkeypatch.setattr(command, "run_parts", lambda those, *_: ran.extend(those) or iter(()))
    monkeypatch.setattr(command, "_describe_cuda", no_driver if maker == "AMD" else str)
    monkeypatch.setattr(command, "_describe_amd", no_file if maker == "CUDA" else str)
    assert command.main(["--json", str(tmp_path / "gpu.json")]) == 1
    assert ran == [part for part in parts.PARTS.values() if part.device == maker and not part.asked]
    other = "graphs" if maker == "AMD" else "AMD graphs"
    assert command.main(["--only", other]) == 2


def result_of(monkeypatch, body, seconds=30.0):
    """What a part whose process runs `body` with `findings` becomes."""
    code = "import sys; from treadle.bench.gpu.findings import Findings; " + (
        "findings = Findings(sys.argv[4], 1, True); " + body
    )
    real = parts.subprocess.Popen

    def start(arguments, **options):
        assert arguments[:3] == [sys.executable, "-m", "treadle.bench.gpu"]
        return real([sys.executable, "-c", code, *arguments[3:]], **options)

    monkeypatch.setattr(parts.subprocess, "Popen", start)
    (result,) = parts.run_parts([parts.Part("work", seconds, "none")], emulated=False)
    return result


def outcomes(result):
    return [(f.name, f.outcome) for f in result.findings]


def test_what_a_part_found_is_kept_when_it_is_stopped(monkeypatch):
    body = "findings.add('first', 'passed'); import time; time.sleep(60)"
    result = result_of(monkeypatch, body, seconds=2.0)
    assert [f.outcome for f in result.findings] == ["passed", "cut"]
    assert not result.passed
    assert result.seconds < 20


def test_a_check_that_hangs_costs_no_other(monkeypatch):
    body = (
        "import time; findings.check('first', int); findings.note('a', 1); "
        "findings.check('stuck', lambda: time.sleep(60), patience=1.0); "
        "findings.check('last', lambda: findings.note('b', findings.notes['a'] + 1))"
    )
    result = result_of(monkeypatch, body)
    assert outcomes(result) == [("first", "passed"), ("stuck", "failed"), ("last", "passed")]
    assert result.findings[1].message == "no end after 1 seconds"
    assert result.notes == {"a": 1, "b": 2}
    assert result.seconds < 20


def test_a_check_that_ends_its_process_costs_no_other(monkeypatch):
    body = (
        "import os; findings.check('fatal', lambda: print('a bad kernel', flush=True) or "
        "os._exit(9)); findings.check('last', int)"
    )
    result = result_of(monkeypatch, body)
    assert outcomes(result) == [("fatal", "failed"), ("last", "passed")]
    assert result.findings[0].message == "status 9: a bad kernel"


BREAK = """
from treadle import Device, Tensor
from treadle.runtime.base import Entry, Launch, Slot
def twice(): assert (Tensor([1.0, 2.0], device="CUDA:PTX") * 2).tolist() == [2.0, 4.0]
def breaks():
    runtime = Device["CUDA:PTX"].runtime
    text = (b".version 7.0\\n.target sm_75\\n.address_size 64\\n"
            b".visible .entry k(.param .u64 p) { .reg .b64 %x; ld.param.u64 %x, [p]; "
            b"st.global.u32 [%x], 7; ret; }")
    library = runtime.load(text, [Entry("k", 1, 32, (Slot(0, 64, True),))])
    runtime.run([Launch(library.phases, [1 << 20])])
    runtime.synchronize()
"""


def test_a_fault_of_a_kernel_costs_no_other_check(monkeypatch, tmp_path):
    (tmp_path / "faulty.py").write_text(BREAK)
    monkeypatch.setenv("EMULATE", "1")
    body = (
        f"import os; os.environ['EMULATE'] = '1'; sys.path.insert(0, {str(tmp_path)!r}); "
        "from faulty import *; findings.check('first', twice); "
        "findings.check('fatal', breaks); findings.check('last', twice)"
    )
    result = result_of(monkeypatch, body)
    assert outcomes(result) == [("first", "passed"), ("fatal", "failed"), ("last", "passed")]
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.findings[1].message


def test_a_fault_of_a_kernel_costs_no_other_test(tmp_path):
    """What comes after it runs in a process that takes its place."""
    pytest.importorskip("xdist")
    tests = "def test_a(): twice()\ndef test_b(): breaks()\ndef test_c(): twice()\n"
    (tmp_path / "test_faulty.py").write_text(BREAK + tests)
    plugins = ["-p", "treadle.bench.gpu.workers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", *plugins, "-q", "-rpf", "."], cwd=tmp_path,
        env={**os.environ, "EMULATE": "1"}, text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "crashed while running" in done.stdout
    for name in ("test_a", "test_c"):
        assert f"PASSED test_faulty.py::{name}" in done.stdout


def test_a_test_that_is_skipped_since_the_gpu_fails_has_failed(tmp_path):
    written = findings.Findings(str(tmp_path / "findings"), 100, False)
    outcomes = _Outcomes(written, "CUDA")
    for name, reason in [
        ("a", "Skipped: CUDA has no textures"),
        ("b", "Skipped: CUDA: it is gone"),
    ]:
        outcomes.pytest_runtest_logreport(
            SimpleNamespace(
                nodeid=name, when="setup", failed=False, skipped=True, passed=False,
                longrepr=("conftest.py", 3, reason),
            )
        )  # fmt: skip
    outcomes.write()
    found, _ = findings.read_findings(str(tmp_path / "findings"))
    assert [(f.name, f.outcome) for f in found] == [("b", "failed"), ("2 tests", "failed")]
    assert found[1].message == "0 passed, 1 skipped, 1 failed"


def test_tests_of_a_device_are_those_that_take_it_and_no_other(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "every = pytest.mark.parametrize('device', ['CPU', 'NV', 'NV:NVRTC:sm_80'])\n"
        "@every\n@pytest.mark.parametrize('x', [1, 2])\n"
        "def test_product(device, x): pass\n"
        "def test_conv(): pass\n"
        "@pytest.mark.parametrize('name', ['CONV', 'INV'])\ndef test_name(name): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider",
         "-p", "treadle.bench.gpu.of_device", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "TEST_DEVICES": "NV"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert found == ["test_product[1-NV]", "test_product[2-NV]"], done.stdout + done.stderr


def test_all_parts_have_their_time_in_ten_minutes():
    for maker in ("CUDA", "AMD"):
        own = [part for part in parts.PARTS.values() if part.device == maker and not part.asked]
        assert sum(part.seconds for part in own) <= parts.TOTAL < 600


def test_a_process_that_dies_is_a_failure_with_its_last_words(monkeypatch):
    result = result_of(monkeypatch, "findings.add('first', 'passed'); sys.exit('all is lost')")
    assert result.findings[-1].message == "status 1: all is lost"
    assert not result.passed


def test_a_part_that_finds_nothing_has_not_passed(monkeypatch):
    assert not result_of(monkeypatch, "pass").passed
    assert not found_part("suite", ("tests", "skipped", 0.0, "no folder of tests")).passed
    assert found_part("interop", ("a", "passed"), ("b", "skipped")).passed


def test_findings_are_what_checks_did(tmp_path):
    path = str(tmp_path / "findings")
    writer = findings.Findings(path, 10, False)

    def skips():
        raise findings.Skipped("no such thing here")

    writer.check("good", lambda: None)
    writer.check("bad", lambda: [][1])
    writer.check("absent", skips)
    writer.note("text", "a table")
    with open(path, "a") as file:
        file.write('{"finding": {"name"')  # the process was killed
    found, notes = findings.read_findings(path)
    assert [f.outcome for f in found] == ["passed", "failed", "skipped"]
    assert found[1].message == "IndexError: list index out of range"
    assert notes == {"text": "a table"}
    result = parts.PartResult(parts.Part("work", 1, "none"), 0.1, found, notes)
    text = as_text([result])
    assert text.startswith("a table\n")
    assert "* failed: work: bad: IndexError" in text
    assert "* skipped: work: absent: no such thing here" in text


# -- NV ---------------------------------------------------------------------------------------


def written_by(tmp_path):
    return [(f.name, f.outcome) for f in findings.read_findings(str(tmp_path / "f"))[0]]


def test_nothing_is_tried_behind_an_xid_in_this_process_or_the_next(tmp_path):
    def fails(text):
        raise DeviceError(text)

    written = findings.Findings(str(tmp_path / "f"), 100, True)
    steps = nv._Steps(written)
    steps.take("a", lambda: fails("NV: it is refused"))
    steps.take("b", int)
    steps.take("c", lambda: fails("NV: a kernel used memory that is not its own (Xid 31)"))
    steps.take("d", int)
    nv._Steps(findings.Findings(str(tmp_path / "f"), 100, True)).take("e", int)
    assert written_by(tmp_path) == [
        ("a", "failed"), ("b", "passed"), ("c", "failed"), ("d", "skipped"), ("e", "skipped"),
    ]  # fmt: skip


def test_a_machine_without_the_kernel_driver_leaves_nv_out(tmp_path, monkeypatch):
    def none(_):
        raise DeviceError("NV: there is no /dev/nvidiactl")

    monkeypatch.setattr(nv, "_rm", none)
    nv.run(findings.Findings(str(tmp_path / "f"), 100, False))
    assert written_by(tmp_path) == [("NV: the kernel driver", "passed"), ("NV", "skipped")]


def test_each_step_of_nv_fails_by_itself(tmp_path, monkeypatch):
    """The driver's objects are made, whatever becomes of what comes behind them."""

    def refused(*_):
        raise DeviceError("NV: it is refused")

    for step in ("_device", "_chain"):
        monkeypatch.setattr(nv, step, refused)
    monkeypatch.setattr(nv.suite, "run", lambda *_: None)
    written = findings.Findings(str(tmp_path / "f"), 100, True)
    nv.run(written)
    found = dict(written_by(tmp_path))
    assert {name for name, outcome in found.items() if outcome == "passed"} == {
        "NV: the kernel driver", "NV: classes of the GPU",
    }  # fmt: skip
    assert "skipped" not in found.values()
    assert written.notes["NV generation"] == "sm_90a"
    assert "0xcbc0" in written.notes["NV classes"]


def test_the_chain_of_objects_is_made_and_goes(tmp_path):
    written = findings.Findings(str(tmp_path / "f"), 100, True)
    for name in ("first", "second"):
        written.check(name, lambda: nv._chain(written))
    assert written_by(tmp_path) == [("first", "passed"), ("second", "passed")]


# -- rows -------------------------------------------------------------------------------------


def test_rows_are_measured_beside_compilers_too_and_by_whoever_goes_on(tmp_path, monkeypatch):
    rows = [row for row in gpu_works(small=True) if row.group == "memory"][:2]
    monkeypatch.setattr(benchmark, "gpu_works", lambda _: rows)
    make = lambda: TensorLibrary("treadle")
    libraries = {"treadle": make, "torch.compile": make}
    monkeypatch.setattr(benchmark, "_libraries", lambda _: libraries)
    path = str(tmp_path / "findings")
    monkeypatch.setattr(benchmark, "_compare", lambda *_: None)
    for seconds in (100, 0):  # the second has no time, but what the first has done is there
        benchmark.run(findings.Findings(path, seconds, True))
    found, notes = findings.read_findings(path)
    assert {f.outcome for f in found} == {"passed"}
    names = {f.name for f in found}
    assert {
        f"{rows[0].name}: values",
        f"{rows[1].name}: times",
        f"{rows[1].name}: compilers",
    } <= names
    groups = [row["group"] for row in notes["benchmark"]["work"]]
    assert groups == ["memory", "memory", "against compilers", "against compilers"]
    assert "torch.compile ms (x)" in notes["text"]


# -- records ----------------------------------------------------------------------------------


def test_every_probe_has_a_name_and_runs_from_its_architecture_on():
    names = [probe.name for probe in corpus("sm_120")]
    assert len(set(names)) == len(names)
    assert not [probe for probe in corpus("sm_75") if probe.name.startswith("mma")]


def test_a_record_is_replayed(emulated, tmp_path, monkeypatch):
    few = [probe for probe in corpus("sm_90a") if probe.name in ("fma.rn", "cvt.rzi.u32", "min")]
    monkeypatch.setattr(record, "corpus", lambda _: few)
    path = str(tmp_path / "record")
    record.record(emulated, few[:1], path, "another chip")
    for probe in few:
        record.record(emulated, [probe], path, "a chip")
    assert record.differences(emulated, "sm_90a", path) == ([], [])
    with np.load(path) as file:
        data = dict(file)
    data["fma.rn"] = data["fma.rn"] ^ 1
    data["cvt.rzi.u32"] = data["cvt.rzi.u32"] + 3
    about = json.loads(bytes(data["about"]))
    assert about["device"] == "a chip"
    about["digests"]["min"] = "of another text"
    data["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **data)
    found, stale = record.differences(emulated, "sm_90a", path)
    assert [text.split(":")[0] for text in found] == ["fma.rn", "cvt.rzi.u32"]
    assert "1024 of 1024 differ" in found[1]
    assert stale == ["min"]


@pytest.mark.parametrize("path", RECORDS or [None], ids=str)
def test_the_emulator_does_what_hardware_did(emulated, path):
    if path is None:
        pytest.skip(
            "nothing is recorded in tests/golden/cuda: python -m treadle.bench.gpu --record"
        )
    found, stale = record.differences(emulated, "sm_90a", str(path))
    assert not found
    assert len(stale) < len(corpus("sm_90a")), "record it again"


# -- probes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [probes.fma_probe, probes.mma_probe, probes.wgmma_probe])
def test_probes_multiply(emulated, make):
    probe = make()
    kernel = emulated.load(probe.text.encode()).function("probe")
    out = emulated.alloc(4, None)
    emulated.launch(kernel, (1, 1, 1), (128, 1, 1), 0, None, [("address", out), ("int32", 2)])
    multiplications = probe.text.count("fma.rn") * 32 + probe.text.count("mma.sync.") * 16 * 8 * 16
    multiplications += probe.text.count("wgmma.mma_async") * 64 * 256 * 16 // 4
    assert probe.operations == 2 * multiplications
