"""`treadle bench`: the table of work, with peers side by side and the machine's ceilings.

treadle bench --only matmul,softmax --peers torch,numpy --json
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..errors import UserError
from ..helpers import tqdm
from .devices import overheads_here
from .machine import ceilings, describe_machine
from .peers import PEERS, installed
from .process import Overhead
from .report import OverheadResult, WorkResult, as_json, as_text
from .timing import interleave
from .work import Work, works

__all__ = ["run"]

OURS = ("treadle", "treadle lazy")
ROUNDS, QUICK_ROUNDS = 31, 5


def run(
    only: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    quick: bool = False,
    json_wanted: bool = False,
) -> int:
    """Measure and print. Returns 1 if treadle itself failed a row, else 0.

    `only` keeps rows whose name contains one of its words. Raises UserError for a peer that is
    unknown or not installed, and where no row is left.
    """
    names = _peers(peers)
    chosen = [w for w in works(quick) if _wanted(w.name, only)]
    costs = [o for o in overheads_here(quick) if _wanted(o.name, only)]
    if not chosen and not costs:
        known = ", ".join(row.name for row in (*works(quick), *overheads_here(quick)))
        raise UserError(f"no row matches {', '.join(only or ())}; the rows are: {known}")
    limits = ceilings(quick)
    results = [_measure(w, names, quick) for w in tqdm(chosen, "measuring")]
    spent = [_measure_overhead(o) for o in tqdm(costs, "fresh processes")]
    measured = (describe_machine(), limits, results, spent)
    print(json.dumps(as_json(*measured), indent=2) if json_wanted else as_text(*measured, names))
    return 1 if any("treadle" in r.failed for r in results) or any(r.failed for r in spent) else 0


def _wanted(name: str, only: Sequence[str] | None) -> bool:
    return only is None or any(word.lower() in name.lower() for word in only)


def _peers(asked: Sequence[str] | None) -> list[str]:
    """The columns: treadle's own, then those asked for, or all that are installed."""
    if asked is None:
        return [name for name, peer in PEERS.items() if peer.default and installed(peer)]
    for name in asked:
        if name not in PEERS:
            raise UserError(f"there is no peer {name!r}; the peers are: {', '.join(PEERS)}")
        if not installed(PEERS[name]):
            raise UserError(f"the peer {name} is not installed; run: pip install {name}")
    return [name for name in PEERS if name in OURS or name in asked]


def _measure(work: Work, names: Sequence[str], quick: bool) -> WorkResult:
    arrays, result, runs = work.inputs(), WorkResult(work, {}), {}
    for name in names:
        # One peer that cannot do a row, or treadle itself, must not cost all other numbers.
        try:
            prepared = PEERS[name].prepare(work, arrays)
            if prepared is not None:
                prepared()
                runs[name] = prepared
        except Exception as error:
            result.failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    result.times = interleave(runs, QUICK_ROUNDS if quick else ROUNDS)
    return result


def _measure_overhead(overhead: Overhead) -> OverheadResult:
    try:
        return OverheadResult(overhead, overhead.measure())
    except UserError as error:
        return OverheadResult(overhead, None, str(error))
