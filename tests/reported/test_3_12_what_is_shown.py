"""What DEBUG=2, dir, help, repr and progress bars show."""

import io
import pydoc
import re
import sys
from pathlib import Path

import numpy as np

import treadle
from treadle import Context, Tensor
from treadle.helpers import tqdm, trange


def test_3_12_debug_names_the_users_lines_and_totals(capfd):
    x = Tensor(np.random.default_rng(0).random((300, 300), np.float32))
    with Context(DEBUG=3):
        (x @ x).softmax().sum(0).realize()  # the line that asks
    shown = capfd.readouterr().err.splitlines()
    kernels = [line for line in shown if "GFLOP/s" in line and "total" not in line]
    assert any("# the line that asks" in line and __file__ in line for line in shown)
    assert all(f"{Path(__file__).name}:" in line for line in kernels)
    assert len(kernels) > 1
    assert f"total of {len(kernels)} kernels" in shown[-1]


def test_3_12_no_share_of_the_roofline_is_above_100_percent_without_a_reason(capfd):
    x = Tensor(np.ones((64, 64), np.float32)).realize()
    with Context(DEBUG=2):
        for _ in range(20):  # from caches, by then
            (x + 1).realize()
            (x * 3).sum().realize()
    shares = re.findall(r"(\d+)% of the roofline \((.*?)\)", capfd.readouterr().err)
    assert len(shares) >= 40
    assert all(int(n) <= 100 or "ceiling too low" in why for n, why in shares)


def test_3_12_dir_shows_what_is_public_alone():
    public = {name for name in dir(treadle) if not name.startswith("__")}
    assert public == {name for name in treadle.__all__ if not name.startswith("__")}


OTHERS = {"axis", "devices"}  # words beside the names of methods


def test_3_12_help_leads_to_the_methods():
    text = pydoc.render_doc(Tensor, renderer=pydoc.plaintext)
    head = text[: text.index("Method resolution order")]
    words = set(re.findall(r"\w+", head))
    assert {"zeros", "softmax", "reshape", "conv2d", "backward", "pytorch"} <= words
    listed = re.findall(r"[a-z]\w+(?=[,(\n])", head[head.index("made of numbers") :])
    missing = [name for name in listed[: listed.index("schedule")] if name not in OTHERS]
    missing = [name for name in missing if not hasattr(Tensor, name)]
    assert missing == []


def test_3_12_a_large_tensor_shows_its_first_and_last_values():
    values = np.arange(100 * 100, dtype=np.int32).reshape(100, 100)
    shown = repr(Tensor(values).realize())
    assert {"0", "1", "98", "99", "9900", "9999"} <= set(re.findall(r"\d+", shown))
    assert "..." in shown
    assert "shape=(100, 100)" in shown


class _Notebook(io.StringIO):
    """As ipykernel's stream: no terminal, and yet somebody looks at it."""


_Notebook.__module__ = "ipykernel.iostream"


def test_3_12_a_bar_is_drawn_in_a_notebook(monkeypatch):
    stream = _Notebook()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(trange(3, desc="epochs")) == [0, 1, 2]
    assert "epochs: 100%|" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_3_12_a_bar_that_does_not_stay_leaves_nothing(monkeypatch):
    stream = _Notebook()
    monkeypatch.setattr(sys, "stderr", stream)
    list(tqdm("ab", leave=False))
    assert stream.getvalue().rstrip(" \r").count("\n") == 0
