"""The command that times models through torch.compile."""

import pytest

from treadle.bench.torch_compile import SMALL, Row, measured, table


def test_a_model_is_timed_on_each_side():
    pytest.importorskip("torch", reason="PyTorch: pip install treadle[oracle]")
    pytest.importorskip("transformers", reason="the models: pip install treadle[models]")
    from treadle.bench.torch_compile.models import MODELS

    assert SMALL in MODELS
    row = measured("GPT-2", "training", ["eager", "treadle"])
    assert row.model == "GPT-2"
    assert [*row.seconds] == [*row.first] == ["eager", "treadle"]
    assert min(row.seconds.values()) > 0
    assert row.first["treadle"] > row.seconds["treadle"]  # it compiles


def test_the_table_has_ratios_and_their_means():
    rows = [
        Row(name, "training", {"eager": eager, "treadle": 0.002}, {"eager": 0.1, "treadle": 3.0})
        for name, eager in (("one", 0.001), ("two", 0.004))
    ]
    lines = table(rows).splitlines()
    assert lines[2] == "| one | training | 1.00 | 2.00 | 0.50 | 0.1, 3.0 |"
    assert lines[3] == "| two | training | 4.00 | 2.00 | 2.00 | 0.1, 3.0 |"
    assert lines[-1] == "training: eager / treadle, geometric mean of 2: 1.00"


def test_one_side_alone_has_no_ratio():
    assert "/ treadle" not in table([Row("one", "inference", {"eager": 1.0}, {"eager": 2.0})])


def test_what_a_call_costs_beside_its_kernels_is_no_part_of_the_mean():
    rows = [
        Row(name, "inference", {"eager": seconds, "treadle": 0.001}, {"eager": 0.1, "treadle": 1.0})
        for name, seconds in (("one", 0.002), (SMALL, 0.00001))
    ]
    lines = table(rows).splitlines()
    assert lines[3] == f"| {SMALL} | inference | 0.010 | 1.00 | 0.01 | 0.1, 1.0 |"
    assert lines[-1] == "inference: eager / treadle, geometric mean of 1: 2.00"
