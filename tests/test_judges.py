"""`.ci/judges` where pip and apt are replaced: downloads are right, wrong or not to be had."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "judges"
OFFLINE_APT = "E: Failed to fetch http://debian/x  Temporary failure resolving 'debian'"
OFFLINE_PIP = "NewConnectionError: Failed to establish a new connection: Network is unreachable"
PROGRAMS = {  # a download is a file that holds its package's name
    "python3": """
        case $2 in
          pip) [ -z "$PIP_SAYS" ] || { echo "$PIP_SAYS"; exit 1; }
               for last; do :; done; printf %s "${PREFIX}${last%%==*}" >"${last%%==*}.whl";;
          zipfile) grep -q "$BROKEN" "$4" && exit 2; touch unpacked
               grep -q triton "$4" || exit 0
               nvidia=triton/backends/nvidia
               mkdir -p $nvidia/bin/cuobjdump $nvidia/bin/nvdisasm $nvidia/bin/ptxas
               mkdir -p $nvidia/lib/cupti triton/_C/libproton.so;;
        esac""",
    "apt-get": """
        for last; do :; done
        echo "$last" >>"$CALLS"
        [ -z "$APT_SAYS" ] || { echo "$APT_SAYS"; exit 100; }
        [ "$last" = update ] || printf %s "${PREFIX}${last%%=*}" >"${last%%=*}.deb" """,
    "tar": """
        grep -q "$BROKEN" "$2" && exit 2
        touch unpacked""",
    "dpkg-deb": """
        grep -q "$BROKEN" "$2" && exit 2
        touch "$3/unpacked" """,
}

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists() or shutil.which("sha256sum") is None, reason="a checkout, with sha256sum"
)


class Fetch:
    """A copy of the script whose hashes are those of what these programs download."""

    def __init__(self, folder):
        self.folder, self._bin = folder, folder / "bin"
        text = re.sub(
            r"([a-z][a-z0-9-]*) (\S+) [0-9a-f]{64}\b",
            lambda m: f"{m[1]} {m[2]} {hashlib.sha256(m[1].encode()).hexdigest()}",
            SCRIPT.read_text(encoding="utf-8"),
        )
        (folder / ".ci").mkdir()
        self._bin.mkdir()
        self._write(folder / ".ci" / "judges", text)
        for name, body in PROGRAMS.items():
            self._write(self._bin / name, f"#!/bin/sh\n{body}\n")

    @staticmethod
    def _write(path, text):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run(self, *arguments, **environment):
        """The script's status, and what it wrote."""
        given = {
            "PATH": f"{self._bin}:{os.environ['PATH']}", "CALLS": str(self.folder / "calls"),
            "PREFIX": "", "BROKEN": "nothing", "PIP_SAYS": "", "APT_SAYS": "", **environment,
        }  # fmt: skip
        ran = subprocess.run(
            [self.folder / ".ci" / "judges", *arguments],
            env=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def fetch(tmp_path):
    return Fetch(tmp_path)


DEFAULT = {"bitsandbytes", "pyobjc", "device-libs", "rocr", "mesa", "tinymesa"}


@pytest.mark.parametrize(
    ("arguments", "folders"),
    [((), DEFAULT), (("--full",), DEFAULT | {"hipcc", "triton", "llvm", "mlx"})],
)
def test_all_is_fetched_once(fetch, arguments, folders):
    status, text = fetch.run(*arguments)
    assert status == 0, text
    unpacked = {path.parent.name for path in (fetch.folder / ".judges").glob("*/unpacked")}
    assert unpacked == folders
    status, text = fetch.run(*arguments, PIP_SAYS=OFFLINE_PIP, APT_SAYS=OFFLINE_APT)
    assert status == 0, text


@pytest.mark.parametrize("says", [{"PIP_SAYS": OFFLINE_PIP}, {"APT_SAYS": OFFLINE_APT}])
def test_no_network_has_a_status_of_its_own(fetch, says):
    status, text = fetch.run(**says)
    assert status == 75, text
    assert "there is no network" in text


def test_lists_of_packages_are_fetched_again_after_a_time_without_network(fetch):
    fetch.run(APT_SAYS=OFFLINE_APT)
    assert fetch.run()[0] == 0
    calls = (fetch.folder / "calls").read_text().split()
    assert calls[:2] == ["update", "update"]
    assert calls.count("update") == 3  # and once more for another system's sources


def test_another_file_than_was_named_is_an_error(fetch):
    status, text = fetch.run(PREFIX="another ")
    assert status == 1
    assert "no file of bitsandbytes" in text
    assert "no network" not in text


@pytest.mark.parametrize(
    "says",
    [
        {"PIP_SAYS": "ERROR: No matching distribution found"},
        {"APT_SAYS": "E: Version '5.2.3-2' for 'rocm-device-libs' was not found"},
        {"APT_SAYS": "E: Hash Sum mismatch"},
    ],
)
def test_a_server_that_has_no_such_package_is_an_error(fetch, says):
    status, text = fetch.run(**says)
    assert status == 1
    assert next(iter(says.values())) in text


@pytest.mark.parametrize("broken", ["bitsandbytes", "rocm-device-libs", "libelf1", "rocminfo"])
def test_what_cannot_be_unpacked_is_an_error_each_time(fetch, broken):
    for _ in range(2):
        status, text = fetch.run(BROKEN=broken)
        assert status not in (0, 75), text
    assert fetch.run()[0] == 0


@pytest.mark.parametrize("broken", ["hipcc", "libllvm15"])
def test_a_compiler_that_is_half_unpacked_is_not_taken_for_whole(fetch, broken):
    for _ in range(2):
        status, text = fetch.run("--full", BROKEN=broken)
        assert status not in (0, 75), text
        assert not (fetch.folder / ".judges" / "hipcc").exists()
    assert fetch.run("--full")[0] == 0


@pytest.mark.parametrize(("status", "goes_on"), [(0, True), (75, True), (1, False), (2, False)])
def test_a_run_goes_on_without_judges_only_where_there_is_no_network(tmp_path, status, goes_on):
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT.with_name("run"), tmp_path / ".ci")
    (tmp_path / ".ci" / "judges").write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    (tmp_path / ".ci" / "judges").chmod(0o755)
    ran = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False)
    assert ran.returncode, "there is no README whose command it runs"
    assert (tmp_path / ".venv-ci").exists() == goes_on
    assert (f"failed with status {status}" in ran.stderr) != goes_on
    assert ("no network" in ran.stdout) == (status == 75)
