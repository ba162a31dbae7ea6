"""`treadle bench`: the table of work, with peers side by side and the machine's ceilings.

treadle bench --only matmul,softmax --peers torch,numpy --json
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from ..errors import UserError
from ..helpers import tqdm
from .beam import measure_beam, searched_rows
from .devices import overheads_here
from .drawn import GROUP, drawn_rows, seed_of_version
from .footprint import footprint, measured_programs
from .machine import ceilings, describe_machine
from .measure import measure
from .peers import PEERS, installed, takes_part
from .process import Overhead
from .report import Report, as_json, as_text
from .results import BeamResult, FootprintResult, OverheadResult
from .rows import works
from .work import Work

__all__ = ["run"]

ALWAYS = ("treadle", "treadle lazy", "bandwidth")
ROUNDS, QUICK_ROUNDS = 31, 3
EACH, QUICK_EACH = 18, 1  # random rows of a family
LINE = 80  # characters of a line that lists rows
INTERRUPTED = 130  # what a shell reports for Ctrl-C
BUDGET, QUICK_BUDGET = 2.0, 0.1  # seconds for the rounds of one row


def run(
    only: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    quick: bool = False,
    json_wanted: bool = False,
    seed: str | None = None,
) -> int:
    """Measure and print. Returns 1 if treadle itself failed a row, else 0.

    `only` keeps the groups of these names, and rows whose name contains one of its words.
    `peers` None takes those that are installed, each in the rows where it takes part. Ctrl-C ends
    the measuring: what there is by then is printed, and 130 returned. Raises UserError for a peer
    that is unknown or not installed, and where no row is left. Searches, which take minutes, run
    where `only` asks for them, by "beam" or by a word that begins so; random shapes likewise.
    `seed` draws those, else the commit does.
    """
    _check_peers(peers or ())
    chosen = [w for w in works(quick) if _wanted(w.group, w.name, only)]
    chosen += _drawn(only, quick, seed)
    costs = [o for o in overheads_here(quick) if _wanted("latency", o.name, only)]
    programs = [w for w in measured_programs(quick) if _wanted("peak memory", w.name, only)]
    beams = [name for name in searched_rows(quick) if _is_asked_for(name, only)]
    if not (chosen or costs or programs or beams):
        raise UserError(f"no row matches {', '.join(only or ())}; the rows are:\n{_known(quick)}")
    limits = ceilings(quick)
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET) if quick else (ROUNDS, BUDGET)
    machine = describe_machine()
    if any(work.group == GROUP for work in chosen):
        machine["random shapes"] = f"of seed {seed or seed_of_version()}"
    report = Report(machine, limits, [], [], [])
    ended = False
    try:
        for work in tqdm(chosen, "measuring"):
            libraries = {name: PEERS[name].library for name in _peers(work, peers, quick)}
            report.works.append(measure(work, libraries, rounds, budget))
        for cost in tqdm(costs, "fresh processes"):
            report.overheads.append(_measure_overhead(cost))
        for program in tqdm(programs, "peak memory"):
            report.footprints.append(_measure_footprint(program, quick))
        for name in tqdm(beams, "searches"):
            report.beams.append(_measure_beam(name, quick))
    except KeyboardInterrupt:
        ended = True
    print(json.dumps(as_json(report), indent=2) if json_wanted else as_text(report))
    return INTERRUPTED if ended else int(report.failed)


def _wanted(group: str, name: str, only: Sequence[str] | None) -> bool:
    words = [word.lower() for word in only or ()]
    return only is None or group in words or any(word in name.lower() for word in words)


def _drawn(only: Sequence[str] | None, quick: bool, seed: str | None) -> list[Work]:
    """The rows of random shapes that are asked for."""
    if not any(word.lower().startswith(GROUP) for word in only or ()):
        return []
    rows = drawn_rows(seed or seed_of_version(), QUICK_EACH if quick else EACH, quick)
    return [work for work in rows if _is_asked_for(work.name, only)]


def _is_asked_for(name: str, only: Sequence[str] | None) -> bool:
    """Whether one of the words is the beginning of `name`, which no other row shares."""
    return any(name.lower().startswith(word.lower()) for word in only or ())


def _known(quick: bool) -> str:
    """Every row by its group, on lines that fit a page."""
    groups: dict[str, list[str]] = {}
    for work in works(quick):
        groups.setdefault(work.group, []).append(work.name)
    groups["latency"] = [*groups.get("latency", ()), *(o.name for o in overheads_here(quick))]
    groups["beam"] = [*groups.get("beam", ()), *searched_rows(quick)]
    lines = [
        textwrap.fill(f"{name}: {'; '.join(rows)}", LINE, subsequent_indent="    ",
                      break_on_hyphens=False)
        for name, rows in groups.items() if rows
    ]  # fmt: skip
    return "\n".join(lines)


def _check_peers(asked: Sequence[str]) -> None:
    for name in asked:
        if name not in PEERS:
            raise UserError(f"there is no peer {name!r}; the peers are: {', '.join(PEERS)}")
        if not installed(PEERS[name]):
            packages = " ".join(PEERS[name].packages)
            raise UserError(f"the peer {name} is not installed; run: pip install {packages}")


def _peers(work: Work, asked: Sequence[str] | None, quick: bool) -> list[str]:
    """The columns of a row: treadle's and memory's, and those asked for, or all that take part."""
    if asked is not None:
        return [name for name in PEERS if name in ALWAYS or name in asked]
    return [n for n, peer in PEERS.items() if installed(peer) and takes_part(n, work, quick)]


def _measure_overhead(overhead: Overhead) -> OverheadResult:
    try:
        return OverheadResult(overhead, overhead.measure())
    except UserError as error:
        return OverheadResult(overhead, None, str(error))


def _measure_footprint(work: Work, quick: bool) -> FootprintResult:
    try:
        return FootprintResult(work.name, footprint(work.name, quick))
    except UserError as error:
        return FootprintResult(work.name, {}, str(error))


def _measure_beam(name: str, quick: bool) -> BeamResult:
    try:
        return measure_beam(name, quick)
    except UserError as error:
        return BeamResult(name, failed=str(error))
