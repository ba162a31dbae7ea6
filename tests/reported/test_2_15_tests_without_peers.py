"""README's second command passes where nothing is installed but what it installs."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A process in which these are not installed: the extras that README's second command leaves out.
WITHOUT_PEERS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "jax", "array_api_compat", "array_api_extra",
                                  "array_api_strict", "expecttest", "gguf", "onnxruntime"):
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def run_without_peers(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PEERS, *arguments],
        cwd=ROOT, env={**os.environ, "EMULATE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_2_15_a_page_with_examples_of_an_absent_peer_is_skipped_by_its_name():
    said = run_without_peers("tests/test_docs.py", "-k", "examples and (array_api or numpy.md)")
    assert re.search(
        r"docs/array_api.md imports array_api_compat: pip install .treadle\[oracle\]", said
    )
    assert "1 passed, 1 skipped" in said


def test_2_15_the_tests_of_the_gpu_scripts_dry_run_need_no_peer():
    from treadle.bench.gpu.suite import _FEW

    said = run_without_peers("--collect-only", *_FEW)
    assert re.search(r"^[1-9]\d*/\d+ tests collected", said, re.MULTILINE), said


def test_2_15_what_is_compared_with_is_no_part_of_what_the_tests_install():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    names = {key: {re.split(r"[^\w.-]", row)[0] for row in rows} for key, rows in extras.items()}
    for extra in {"oracle", "models", "bench"} & {*names}:
        assert names[extra].isdisjoint(names["test"])
