"""Every public name of PyTorch's tensors, layers and functions is here, or says what to write."""

import pytest

torch = pytest.importorskip("torch", reason="pip install treadle[oracle]")

from treadle import Tensor, nn, pytorch_names  # noqa: E402

GENERIC = "dir() lists what there is"


def public(module):
    return [name for name in dir(module) if not name.startswith("_")]


def answered(owner, name):
    """What the AttributeError says of a name, or None where the name is there."""
    try:
        getattr(owner, name)
    except AttributeError as error:
        return str(error)
    return None


OWNERS = {
    "Tensor": (Tensor, torch.Tensor),
    "nn": (nn, torch.nn),
    "nn.functional": (nn.functional, torch.nn.functional),
}


@pytest.mark.parametrize("place", OWNERS)
def test_each_name_is_there_or_answered(place):
    ours, theirs = OWNERS[place]
    silent = []
    for name in public(theirs):
        said = answered(ours, name)
        if said is not None and ": " not in said:
            silent.append(name)
    assert silent == []


@pytest.mark.parametrize("place", ["Tensor", "nn"])
def test_what_users_call_has_an_answer_of_its_own(place):
    """Close names are for slips; a name of PyTorch's says what to write."""
    ours, theirs = OWNERS[place]
    guessed = []
    for name in public(theirs):
        said = answered(ours, name)
        if said is not None and ("did you mean" in said or GENERIC in said):
            guessed.append(name)
    assert guessed == []


def test_functions_that_compute_have_an_answer_of_their_own():
    functions = [name for name in public(torch.nn.functional)
                 if callable(getattr(torch.nn.functional, name))]  # fmt: skip
    computing = [name for name in functions if name[0].islower() and name not in INTERNAL]
    guessed = [name for name in computing if "did you mean" in answered(nn.functional, name)]
    assert guessed == []


INTERNAL = {
    "assert_int_or_pair", "boolean_dispatch", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "reproducibility_notes",
    "sparse_support_notes", "tf32_notes",
}  # fmt: skip


def test_no_answer_is_for_a_name_that_is_there():
    """A row that became wrong, since the name exists by now."""
    stale = [name for name in pytorch_names._TENSOR if hasattr(Tensor, name)]
    stale += [name for name in pytorch_names._LAYERS if hasattr(nn, name)]
    assert stale == []
