"""The table by line: in order of time, no longer and no wider than one can read."""

import os
import subprocess
import sys

import pytest

from treadle.engine.line_totals import WIDTH, LineTotals, Tally, figures, label
from treadle.ir.op import Op
from treadle.ir.origin import Origin


def origin(number, file="train.py"):
    """What `x.exp()` in that line of a file would be."""
    code = compile("x", file, "eval").replace(co_firstlineno=number)
    return Origin(Op.EXP2, code, 2, code.replace(co_name="exp", co_qualname="exp"), False)


@pytest.fixture
def totals(monkeypatch):
    """Totals that no exit of this process shows."""
    monkeypatch.setattr("atexit.register", lambda function: None)
    monkeypatch.setattr("atexit.unregister", lambda function: None)
    return LineTotals()


def rows(totals, columns=200):
    return totals.table(columns).splitlines()


def test_lines_are_in_the_order_of_their_time_with_all_of_their_kernels(totals):
    totals.add("CPU", [origin(1)], Tally(1, 0.001, 10, 20))
    totals.add("CPU", [origin(2)], Tally(1, 0.005, 10, 20))
    totals.add("CPU", [origin(1)], Tally(1, 0.014, 10, 20))
    head, first, second = rows(totals)
    assert head.split()[:6] == ["***", "20.00", "ms", "in", "3", "kernels,"]
    assert first.split()[:6] == ["train.py:1", "exp", "15.00", "ms", "75%", "2"]
    assert second.split()[:6] == ["train.py:2", "exp", "5.00", "ms", "25%", "1"]


def test_rates_are_those_of_all_kernels_of_a_line_together(totals):
    totals.add("CPU", [origin(1)], Tally(1, 1.0, 10**9, 10**9, 0.8, 1.0, "compute"))
    totals.add("CPU", [origin(1)], Tally(1, 3.0, 10**9, 10**9, 0.6, 3.0, "memory"))
    assert rows(totals)[1].split()[-3:] == ["0.50", "0.50", "35%"]


def test_what_has_no_known_ceiling_has_no_share(totals):
    totals.add("CL", [origin(1)], Tally(1, 1.0, 10**9, 10**9))
    assert rows(totals)[1].split()[-2:] == ["1.00", "1.00"]


def test_what_no_line_asked_for_is_told_as_such(totals):
    totals.add("CPU", [], Tally(1, 1.0))
    assert "no line of the program" in rows(totals)[1]


def test_devices_are_named_where_there_are_several(totals):
    totals.add("CPU", [origin(1)], Tally(1, 1.0))
    assert "CPU" not in totals.table(200)
    totals.add("CL", [origin(1)], Tally(1, 2.0))
    assert [row.split()[-1] for row in rows(totals)[1:]] == ["CL", "CPU"]


def test_a_thousand_lines_are_thirty_and_a_sum(totals):
    for number in range(1, 1001):
        totals.add("CPU", [origin(number)], Tally(1, float(number)))
    shown = rows(totals)
    assert len(shown) == 32
    assert "train.py:1000" in shown[1]
    assert "970 more lines" in shown[-1]
    assert shown[-1].split()[-1] == "970"


def test_the_table_is_cut_to_the_terminal(totals):
    totals.add("CPU", [origin(7, "a/" * 80 + "train.py")], Tally(1, 1.0, 1, 1))
    assert max(map(len, rows(totals, 60))) <= 60


def test_a_label_keeps_the_file_and_the_line(tmp_path):
    long = str(tmp_path.joinpath(*["folder"] * 20, "train.py"))
    assert label([origin(123, long)]) == "train.py:123 exp"
    longer = label([origin(123, "t" * 200 + ".py")])
    assert longer.endswith(".py:123 exp")
    assert len(longer) == WIDTH


def test_a_label_counts_the_other_lines():
    assert label([origin(1), origin(2), origin(2), origin(3)]) == "train.py:1 exp +2"


def test_a_share_above_one_is_shown_with_its_reason():
    shown = figures(Tally(1, 1.0, 1, 1, 1.37, 1.0, "compute"))
    assert shown.endswith("137% of the roofline (compute, ceiling too low)")
    assert figures(Tally(1, 1.0, 1, 1, 0.37, 1.0, "L2")).endswith(" 37% of the roofline (L2)")


PROGRAM = """
import os, sys
from treadle import Context, Tensor
x = Tensor([1.0, 2.0], device="CPU")
{body}
"""


def stderr_of(body, **variables):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)], env={**os.environ, **variables},
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip


def test_the_end_of_a_process_shows_the_table_once():
    shown = stderr_of("(x + 1).realize(); (x * 2).realize()", DEBUG="2")
    assert shown.count("by line") == 1
    assert shown.rindex("by line") > shown.rindex("*** CPU")
    assert "add" in shown[shown.rindex("by line") :]


def test_a_block_of_a_program_is_enough():
    body = "with Context(DEBUG=2): (x + 1).realize()\n(x * 2).realize()"
    table = stderr_of(body).split("by line")[1]
    assert "add" in table
    assert "mul" not in table


def test_nothing_is_shown_where_nothing_was_asked():
    assert stderr_of("(x + 1).realize()", DEBUG="0") == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_does_not_show_what_its_parent_did():
    body = """
(x + 1).realize()
child = os.fork()
if child:
    os.waitpid(child, 0)
"""
    assert stderr_of(body, DEBUG="2").count("by line") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_shows_what_it_did_itself():
    body = """
(x + 1).realize()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    (x * 2).realize()
"""
    _, first, second = stderr_of(body, DEBUG="2").split("by line")
    assert "mul" in first
    assert "add" not in first
    assert "add" in second
    assert "mul" not in second
