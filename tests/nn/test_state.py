"""State dictionaries: names, loading, and what does not match."""

from typing import NamedTuple

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import ShapeError, UserError
from treadle.nn.state import get_parameters, get_state_dict, load_state_dict


class Pair(NamedTuple):
    left: Tensor
    right: str


class Block:
    def __init__(self):
        self.linear = nn.Linear(3, 2)
        self.table = {"scale": Tensor([1.0]), "deep": [Tensor([2.0]), 5, None]}
        self.pair = Pair(Tensor([3.0]), "text")
        self.owner = self


NAMES = [
    "linear.weight", "linear.bias", "table.scale", "table.deep.0", "pair.left",
]  # fmt: skip


def test_names_are_the_paths_to_the_tensors_in_order():
    assert list(get_state_dict(Block())) == NAMES


def test_a_prefix_goes_before_every_name():
    assert list(get_state_dict([Tensor([1.0])], prefix="net")) == ["net.0"]


def test_a_tensor_is_its_own_state():
    tensor = Tensor([1.0])
    assert get_parameters(tensor) == [tensor]


def test_a_tied_tensor_appears_under_both_names():
    tensor = Tensor([1.0])
    assert list(get_state_dict({"a": tensor, "b": tensor})) == ["a", "b"]


def test_modules_functions_and_classes_are_not_searched():
    assert get_state_dict([np, Tensor.relu, Block, len]) == {}


def test_loading_gives_a_model_the_values_of_another():
    source, target = Block(), Block()
    loaded = load_state_dict(target, get_state_dict(source), verbose=False)
    assert len(loaded) == len(NAMES)
    np.testing.assert_array_equal(target.linear.weight.numpy(), source.linear.weight.numpy())


def test_loading_may_use_up_the_dictionary():
    state = get_state_dict(Block())
    load_state_dict(Block(), state, verbose=False, consume=True)
    assert state == {}


def test_names_that_do_not_match_are_all_listed_and_nothing_is_loaded():
    target, state = Block(), get_state_dict(Block())
    before = target.linear.bias.numpy().copy()
    state["linear.extra"] = state.pop("linear.weight")
    message = r"missing: linear.weight \(2, 3\); not in the model: linear.extra \(2, 3\)"
    with pytest.raises(UserError, match=message):
        load_state_dict(target, state, verbose=False)
    np.testing.assert_array_equal(target.linear.bias.numpy(), before)


def test_loading_that_is_not_strict_takes_what_matches():
    target = Block()
    state = {"table.scale": Tensor([9.0]), "other": Tensor([1.0])}
    load_state_dict(target, state, strict=False, verbose=False)
    assert target.table["scale"].item() == 9.0


def test_a_shape_that_does_not_match_is_named_with_both_shapes():
    state = get_state_dict(Block()) | {"linear.bias": Tensor([1.0, 2.0, 3.0])}
    with pytest.raises(ShapeError, match=r"linear.bias: model \(2,\), given \(3,\)"):
        load_state_dict(Block(), state, verbose=False)


def test_everything_that_does_not_match_is_listed_at_once():
    state = get_state_dict(Block()) | {"linear.bias": Tensor([1.0, 2.0, 3.0]), "more": Tensor(1.0)}
    del state["table.scale"]
    message = (
        r"missing: table.scale \(1,\); not in the model: more \(\)\):\n"
        r"linear.bias: model \(2,\), given \(3,\)\n    2\n    3\n    \^"
    )
    with pytest.raises(ShapeError, match=message):
        load_state_dict(Block(), state, verbose=False)


def test_shapes_are_checked_without_strict_too():
    with pytest.raises(ShapeError, match=r"shapes do not match:\nlinear\.bias"):
        load_state_dict(Block(), {"linear.bias": Tensor([1.0])}, strict=False, verbose=False)
