"""The examples of the README and of the quickstart run as they are printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/quickstart.md"]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="the quickstart's digits come with scikit-learn")
    monkeypatch.chdir(tmp_path)
    code = blocks(page, "python")
    assert code
    scope = {}
    for block in code:
        exec(compile(block, page, "exec"), scope)
    assert capsys.readouterr().out


def test_the_readme_opens_with_exactly_two_commands_each_on_a_line_of_its_own():
    first, second, *others = blocks("README.md", "sh")
    assert first.startswith("python3 -m venv .venv && ")
    assert first.endswith(" .venv/bin/treadle demo\n")
    assert second.startswith("python3 -m venv .venv && ")
    assert " pytest" in second
    assert (first.count("\n"), second.count("\n"), others) == (1, 1, [])


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        "CONTRIBUTING.md",
        "docs/index.md",
        "docs/devices.md",
        "docs/benchmarks.md",
        "docs/array_api.md",
    ],
)
def test_links_between_pages_lead_somewhere(page):
    source = ROOT / page
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", source.read_text(encoding="utf-8"))
    missing = [t for t in targets if not (source.parent / t).exists()]
    assert missing == []
