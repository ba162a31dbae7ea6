"""Arch strings and this machine become Targets; quotas and affinity bound the cores."""

import os
import subprocess
import sys

import pytest

from treadle.dtype import dtypes
from treadle.errors import DeviceError, SettingError
from treadle.target import available_cores, host_target, parse_target
from treadle.target import host as host_module


@pytest.mark.parametrize(
    ("text", "vector_bytes", "registers", "half", "masked"),
    [
        ("x86_64", 16, 16, False, False),
        ("x86-64-v2", 16, 16, False, False),
        ("x86-64-v3", 32, 16, True, True),
        ("x86-64-v4", 64, 32, True, True),
        ("x86_64,znver2,avx2,-avx512f", 32, 16, True, True),
        ("x86_64,znver4,-avx512f", 32, 16, True, True),
        ("x86_64,znver4,-avx2", 16, 16, True, False),
        ("x86_64,skylake,-fma", 32, 16, True, True),
        ("x86-64-v3,avx512vl", 64, 32, True, True),
        ("x86_64,some-new-cpu", 16, 16, False, False),
        ("x86_64,some-new-cpu,avx2,fma,f16c", 32, 16, True, True),
        ("aarch64", 16, 32, True, False),
        ("arm64,apple-m1", 16, 32, True, False),
        ("riscv64", 16, 32, False, False),
    ],
)
def test_arch_strings_tell_what_a_processor_has(text, vector_bytes, registers, half, masked):
    target = parse_target(text)
    assert target.vector_bytes == vector_bytes
    assert target.vector_registers == registers
    assert (target.has_half_convert, target.has_masked_memory) == (half, masked)


def test_features_are_spelled_for_llvm():
    target = parse_target("x86_64, znver2, avx2, -avx512f")
    assert (target.cpu, target.features) == ("znver2", "+avx2,-avx512f")
    assert parse_target("aarch64,neoverse-v1,bf16").features == "+neon,+bf16"


def test_native_types_follow_the_features():
    assert not parse_target("x86-64-v4").is_native(dtypes.float16)
    assert parse_target("x86_64,sapphirerapids").is_native(dtypes.float16)
    assert parse_target("aarch64,neoverse-n1,fullfp16").is_native(dtypes.float16)
    assert parse_target("x86_64").is_native(dtypes.float32.vec(4))


def test_targets_say_whether_one_instruction_multiplies_and_adds():
    has = {text: parse_target(text).has_fma for text in ("x86-64-v2", "x86-64-v3", "aarch64")}
    assert has == {"x86-64-v2": False, "x86-64-v3": True, "aarch64": True}
    assert not parse_target("x86_64,skylake,-fma").has_fma


def test_targets_say_whether_half_a_vector_takes_half_of_the_time():
    halves = [a for a in ("znver4", "znver5", "skylake-avx512", "znver4,-avx512f")
              if parse_target(f"x86_64,{a}").halves_vectors]  # fmt: skip
    assert halves == ["znver4"]


def test_lanes_are_counted_per_type():
    target = parse_target("x86-64-v4")
    assert [target.lanes(t) for t in (dtypes.int8, dtypes.float32, dtypes.float64)] == [64, 16, 8]
    assert target.lanes(dtypes.bool) == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z80", r"unknown CPU family 'z80' in arch 'z80'; known: native, .*x86_64"),
        ("", "unknown CPU family ''"),
        ("x86_64,znver2,+avx2", r"bad feature '\+avx2'.*bare name"),
        ("x86_64,znver2,,avx2", "bad feature ''"),
        ("native,+avx2", r"bad feature '\+avx2'"),
    ],
)
def test_malformed_strings_are_refused(text, message):
    with pytest.raises(SettingError, match=message):
        parse_target(text)


def test_a_foreign_family_has_no_native_cpu():
    foreign = "aarch64" if host_target().arch == "x86_64" else "x86_64"
    with pytest.raises(SettingError, match=f"asks for {foreign}, but this machine is"):
        parse_target(f"{foreign},native")


def test_native_takes_further_features():
    host = host_target()
    assert parse_target("native") is host
    assert parse_target(f"{host.arch},native") is host
    if host.arch != "x86_64":
        pytest.skip("the feature below belongs to x86-64")
    narrow = parse_target("x86_64,native,-avx2")
    assert narrow.vector_bytes == 16
    assert narrow.features.endswith("-avx2")
    assert (narrow.cores, narrow.l2) == (host.cores, host.l2)


def test_targets_with_different_code_have_different_keys():
    texts = ["x86-64-v2", "x86-64-v3", "x86_64,znver2", "x86_64,znver2,-fma", "aarch64"]
    assert len({parse_target(text).code_key for text in texts}) == len(texts)


def test_the_host_agrees_with_llvm():
    llvm = pytest.importorskip("llvmlite.binding")
    host = host_target()
    told = dict.fromkeys(filter(None, host.features.split(",")))
    known = llvm.get_host_cpu_features()
    for word in told:
        if word[1:] in known:
            assert known[word[1:]] == (word[0] == "+"), word
    assert host.l1 <= host.l2 <= host.l3
    assert 1 <= host.cores <= (os.cpu_count() or 1)


def test_the_host_is_found_without_importing_llvm():
    if not os.path.exists("/proc/cpuinfo"):
        pytest.skip("only Linux lists the features")
    code = (
        "import sys; from treadle.target import host_target; host_target();"
        "sys.exit('llvmlite' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_unknown_processor_is_refused(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with pytest.raises(DeviceError, match="no code generator for a pdp11 processor"):
        host_target.__wrapped__()


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "name"),
    [
        ("AuthenticAMD", 0x17, 0x31, (), "znver2"),
        ("AuthenticAMD", 0x19, 0x11, (), "znver4"),
        ("AuthenticAMD", 0x19, 0x21, (), "znver3"),
        ("GenuineIntel", 6, 0x55, (), "skylake-avx512"),
        ("GenuineIntel", 6, 0x55, ("avx512vnni",), "cascadelake"),
        ("GenuineIntel", 6, 0x8F, (), "sapphirerapids"),
        ("Unheard", 1, 1, ("sse", "sse2"), "x86-64"),
    ],
)
def test_x86_processors_are_named(vendor, family, model, flags, name):
    assert host_module._x86_name(vendor, family, model, frozenset(flags)) == name


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


linux = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")


@linux
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/gone\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_cores_follow_the_quota(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    for path, text in files.items():
        write(tmp_path, path, text)
    assert available_cores(tmp_path) == cores


@linux
def test_hyperthreads_count_once_and_affinity_counts(tmp_path, monkeypatch):
    for cpu in range(8):
        path = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        write(tmp_path, path, f"{cpu % 4},{cpu % 4 + 4}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert available_cores(tmp_path) == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 4})
    assert available_cores(tmp_path) == 2


@linux
def test_caches_are_read_from_the_system(tmp_path):
    rows = {"index0": ("Data", 1, "48K"), "index1": ("Instruction", 1, "32K"),
            "index2": ("Unified", 2, "2M"), "index3": ("Unified", 3, "36608K")}  # fmt: skip
    for folder, (kind, level, size) in rows.items():
        for name, text in (("type", kind), ("level", level), ("size", size)):
            write(tmp_path, f"{folder}/{name}", f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert host_module._sysfs_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 36608 << 10}


def test_nvidia_architectures_tell_what_a_block_has():
    target = parse_target("sm_90a")
    assert (target.cpu, target.triple) == ("sm_90a", "nvptx64-nvidia-cuda")
    assert target.workgroup.subgroup == (32, 32)
    assert target.workgroup.shared_bytes == 227 << 10
    assert target.workgroup.declared_bytes == 48 << 10
    assert target.is_native(dtypes.bfloat16)
    assert not parse_target("sm_75").is_native(dtypes.bfloat16)
    assert parse_target("sm_90").code_key != target.code_key


def test_an_unknown_nvidia_architecture_names_those_that_are():
    with pytest.raises(SettingError, match=r"'sm_70'; known: sm_75, .*sm_120a"):
        parse_target("sm_70")
