"""The package itself: its version, its names, and what importing it costs."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import treadle
from treadle import cli

ROOT = Path(__file__).parent.parent


def test_the_version_is_a_release_that_the_changelog_describes():
    assert re.fullmatch(r"\d+\.\d+\.\d+", treadle.__version__)
    assert f"\n## {treadle.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    path = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert path.read_text(encoding="utf-8").count(f'__version__ = "{treadle.__version__}"') == 1


def test_the_installed_version_is_the_one_that_the_package_tells():
    try:
        installed = version("treadle")
    except PackageNotFoundError:
        pytest.skip("treadle is not installed here, it runs from its source tree")
    assert installed == treadle.__version__


def test_the_command_line_tells_the_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"treadle {treadle.__version__}\n"


def test_importing_the_package_imports_nothing_heavy():
    heavy = {"numpy", "llvmlite", "ml_dtypes", "importlib.metadata", "treadle.ir", "treadle.engine"}
    code = f"import sys, treadle; print(treadle.__version__, {heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{treadle.__version__} set()\n"


def test_every_public_name_is_there():
    assert treadle.__all__ == sorted(treadle.__all__)
    for name in treadle.__all__:
        assert getattr(treadle, name) is not None
