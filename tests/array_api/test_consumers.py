"""scikit-learn and SciPy compute on tensors what they compute on arrays, and return tensors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from treadle import Tensor, array_api


@pytest.fixture(scope="module")
def outcomes():
    """What was wrong with each case of consumers.py, which is run once."""
    pytest.importorskip("sklearn", reason="the consumers are scikit-learn's: pip install it")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("consumers.py")],
        env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_case_agrees_with_numpy_and_gives_tensors(outcomes):
    assert len(outcomes) > 60
    assert [f"{name}:\n{error}" for name, error in outcomes.items() if error] == []


def test_array_api_compat_finds_the_namespace():
    compat = pytest.importorskip("array_api_compat", reason="pip install array-api-compat")
    x = Tensor([[1.0, 2.0]])
    assert compat.array_namespace(x, Tensor([1]), 2.0) is array_api
    assert compat.is_array_api_obj(x)
    assert (compat.size(x), compat.device(x)) == (2, "CPU")
    assert compat.to_device(x, "REF").device == "REF"
    with pytest.raises(TypeError, match="namespaces"):
        compat.array_namespace(x, np.ones(2))


def test_array_api_extra_computes_with_tensors():
    extra = pytest.importorskip("array_api_extra", reason="pip install array-api-extra")
    data = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 4.0]])
    x = Tensor(data, device="REF")
    for got, want in (
        (extra.cov(x), np.cov(data)),
        (extra.nunique(x), np.array(4)),
        (extra.pad(x, 1), np.pad(data, 1)),
        (extra.kron(x, x), np.kron(data, data)),
        (extra.atleast_nd(x, ndim=3), data[None]),
        (extra.create_diagonal(x[0]), np.diag(data[0])),
        (extra.at(x)[0, 1].set(9.0, copy=True), np.array([[3.0, 9.0, 2.0], [1.0, 1.0, 4.0]])),
        (extra.setdiff1d(x[0], x[1]), np.setdiff1d(data[0], data[1])),
    ):
        assert isinstance(got, Tensor)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_the_examples_of_the_page_run_as_they_are_printed():
    for name in ("sklearn", "array_api_compat"):
        pytest.importorskip(name, reason=f"the page's examples import {name}")
    page = Path(__file__).parents[2] / "docs" / "array_api.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    code = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)", code)
