"""ARCHITECTURE.md and the pages in docs/design: short, whole, and true about what is where.

A path in backticks is a promise: `lower/passes` is a module or a folder of src/treadle, and
`tests/choices` one of the checkout. So no page names a module that has moved.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src/treadle"
LONGEST = 12 * 1024  # bytes
ARCHITECTURE = "ARCHITECTURE.md"
DESIGN = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/design/*.md"))
USERS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
FOLDERS = sorted(path.name for path in SOURCES.iterdir() if any(path.glob("*.py")))

_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|\w+/|\w+\.py)`")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def exists(name):
    """Whether a path as pages write it is there: `ir/`, `ir/op.py`, `ir/op` or `tests/choices`."""
    if name.endswith("/"):
        return (SOURCES / name).is_dir() or (ROOT / name).is_dir()
    return any((base / end).exists() for base in (SOURCES, ROOT) for end in (name, f"{name}.py"))


def missing(text, folders=None):
    """The paths in a page that are not there; of `folders` alone, if there are some."""
    found = _PATH.findall(text)
    if folders is not None:
        found = [name for name in found if name.partition("/")[0] in folders]
    return sorted({name for name in found if not exists(name)})


def test_the_architecture_is_one_short_page():
    assert (ROOT / ARCHITECTURE).stat().st_size <= LONGEST


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_architecture_says_what_a_folder_is(folder):
    assert f"\n**`{folder}/`** " in text_of(ARCHITECTURE)


@pytest.mark.parametrize("page", [ARCHITECTURE, *DESIGN])
def test_the_paths_that_a_page_names_exist(page):
    assert missing(text_of(page)) == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", *USERS])
def test_the_modules_that_other_pages_name_exist(page):
    assert missing(text_of(page), FOLDERS) == []


def test_a_path_that_is_gone_is_found():
    text = "`lower/passes`, `ir/`, `ir/op.py`, `tests/errors`; `lower/gone`, `gone/`, `gone.py`"
    assert missing(text) == ["gone.py", "gone/", "lower/gone"]
    assert missing("`lower/gone`, `x/y`", FOLDERS) == ["lower/gone"]


@pytest.mark.parametrize("page", DESIGN)
def test_a_page_of_the_design_leads_back(page):
    assert "[Architecture](../../ARCHITECTURE.md)" in text_of(page)


def test_the_architecture_leads_to_every_page_of_the_design():
    assert sorted(set(re.findall(r"\((docs/design/[\w-]+\.md)\)", text_of(ARCHITECTURE)))) == DESIGN
