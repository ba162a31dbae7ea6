"""What the pages show is what happens: their examples run, and their links lead somewhere.

A `python` block is a program to copy; a `pycon` block is an example: it prints what it shows.
Those of one page run in order and share their names.
"""

import doctest
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from treadle import Device

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md"))]
# What pages import of other projects, none of which treadle needs, and the extra that brings each.
# The quickstart's digits are scikit-learn's, which treadle imports there.
PEERS = {
    "array_api_compat": "oracle", "av": "video", "jax": "bench", "sklearn": "demo",
    "torch": "oracle",
}  # fmt: skip
INDIRECT = {"docs/quickstart.md": ("sklearn",)}


def blocks(page, *languages):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```({'|'.join(languages)})\n(.*?)```", text, re.DOTALL)


EXAMPLES = [page for page in PAGES if blocks(page, "python", "pycon")]


def run_session(text, scope, page):
    test = doctest.DocTestParser().get_doctest(text, scope, page, page, 0)
    runner, said = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), []
    runner.run(test, out=said.append, clear_globs=False)
    scope.update(test.globs)
    assert not runner.failures, "".join(said)


def absent_peers(page):
    """Those of PEERS that the page's examples import and that are not installed."""
    text = "\n".join(code for _, code in blocks(page, "python", "pycon"))
    names = re.findall(r"^(?:>>> |\.\.\. )? *(?:import|from) +(\w+)", text, re.MULTILINE)
    needed = {*names, *INDIRECT.get(page, ())}
    return sorted(name for name in PEERS if name in needed and find_spec(name) is None)


@pytest.mark.parametrize("page", EXAMPLES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's compiler warns of itself
def test_the_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    absent = absent_peers(page)
    if absent:
        extras = ",".join(sorted({PEERS[name] for name in absent}))
        pytest.skip(f'{page} imports {" and ".join(absent)}: pip install "treadle[{extras}]"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Device, "DEFAULT", "CPU")
    scope = {"__name__": "__main__"}
    for language, text in blocks(page, "python", "pycon"):
        if language == "python":
            exec(compile(text, page, "exec"), scope)
        else:
            run_session(text, scope, page)


def test_a_session_that_prints_something_else_fails():
    with pytest.raises(AssertionError, match="Expected:"):
        run_session(">>> 1 + 1\n3\n", {}, "page")


def test_the_readme_opens_with_exactly_two_commands_each_on_a_line_of_its_own():
    (_, first), (_, second), *others = blocks("README.md", "sh")
    assert first.startswith("python3 -m venv .venv && ")
    assert first.endswith(" .venv/bin/treadle demo\n")
    assert second.startswith("python3 -m venv .venv && ")
    assert " pytest" in second
    assert (first.count("\n"), second.count("\n"), others) == (1, 1, [])


def anchors(page):
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    source = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", source.read_text(encoding="utf-8"))
    for link in links:
        path, _, anchor = link.partition("#")
        target = source.parent / path if path else source
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\w[\w/-]*\.md)", index)
    assert {f"docs/{name}" for name in linked} == {*PAGES} - {"README.md", "docs/index.md"}
