"""How much of the code says nothing of its types: the word Any is counted, and only falls.

Any switches the type checker off, for whoever calls and for whoever changes the code. It stays
where a value may be of any type and is used without asking: the argument of a node, what a driver's
binding gives back, what a user's function takes.
"""

import re
from collections import Counter
from pathlib import Path

import treadle

SOURCE = Path(treadle.__file__).parent
WORD = re.compile(r"\bAny\b")

MOST = 340
SLACK = 20  # a limit far above what is there is none: lower it


def counted() -> Counter[str]:
    """The lines of each folder of the package that say Any, imports of the word included."""
    found: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        folder = path.relative_to(SOURCE).parts[0]
        lines = path.read_text(encoding="utf-8").splitlines()
        found[folder] += sum(WORD.search(line) is not None for line in lines)
    return found


def test_any_is_said_no_more_often_than_before():
    found = counted()
    worst = ", ".join(f"{folder} {count}" for folder, count in found.most_common(8))
    assert found.total() <= MOST, f"most stand in {worst}"


def test_the_limit_follows_what_is_there():
    assert MOST - counted().total() <= SLACK
