"""Odd arguments to every public callable: none answers with an error of Python's own.

Each parameter of each callable gets each odd value in turn, each method is called on each odd
tensor, and what comes back is a result or an error that names the operation. What is left is in
`KNOWN`, each with its reason.
"""

import inspect
import math

import pytest

from treadle import Tensor
from treadle.tensor import random_bits

from ..thinning import chosen
from .sweep.calls import SPACE_OF, all_calls
from .sweep.judge import judge
from .sweep.values import ODD, RECEIVERS

CALLS = list(all_calls())
SPACES = sorted({call.name.partition(".")[0] for call in CALLS})
SHARE = 3  # one odd call of so many runs without --full
OFTEN = "called for every operation, so its flags are read as Python reads them"
THEIRS = "what the function or the array that was given raises itself"

# Bad answers that stay: (callable, parameter, value).
KNOWN = {
    **{(f"Tensor.{name}", flag, f"an array of {kind}"): OFTEN
       for names, flags in (("add sub subtract mul multiply matmul div divide true_divide",
                             "reverse"),
                            ("div divide true_divide", "rounding_mode"))
       for name in names.split() for flag in flags.split() for kind in ("texts", "objects")},
    **{("func.vjp", "primals", value): THEIRS for value in ("()", "{}")},
    **{(f"{space}.from_dlpack", "x", f"an array of {kind}"): THEIRS
       for space in ("Tensor", "array_api") for kind in ("texts", "objects")},
}  # fmt: skip

# Calls that would do what they were asked for, for hours.
ENDLESS = {
    **{(f"nn.{name}", "num_layers", "2 ** 70"): "makes layers" for name in ("RNN", "GRU", "LSTM")},
    ("Tensor.newton_schulz", "steps", "2 ** 70"): "does steps",
    ("Tensor.tensor_split", "indices_or_sections", "2 ** 70"): "makes pieces",
    **{("Tensor.hash", "self", name): "compiles for a second" for name in (*ODD, *RECEIVERS)},
}


def cases(call):
    """(parameter, name of the value, arguments) for each odd call."""
    for key, parameter in call.signature.parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            several = parameter.kind is parameter.VAR_POSITIONAL
            for name, make in ODD.items():
                yield key, name, lambda make=make, s=several: (make(),) if s else make()
    first = next(iter(call.signature.parameters), "")
    if first in ("self", "x", "x1"):
        for name, make in RECEIVERS.items():
            yield first, name, make


def answers(call, kinds):
    """What is wrong with the answers to odd calls, by case; the kinds of errors go to `kinds`."""
    return {
        (call.name, key, name): judge(call, {key: make()}, kinds=kinds)
        for key, name, make in cases(call)
        if (call.name, key, name) not in ENDLESS and chosen(f"{call.name} {key} {name}", SHARE)
    }


def said_of(call):
    """What the docstrings of a callable, of its classes and of its home say."""
    space = call.name.rpartition(".")[0]
    homes = [Tensor] if space in ("Tensor", "fft") else [SPACE_OF[space.partition(".")[0]]]
    bases = call.function.__mro__ if isinstance(call.function, type) else [call.function]
    return " ".join(inspect.getdoc(what) or "" for what in (*bases, *homes))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.filterwarnings("ignore")
def test_odd_arguments_are_answered_by_name_and_as_docstrings_say(space, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some values are names of files
    # Else the numbers of all layers that other spaces threw away would be drawn first, in order.
    monkeypatch.setattr(random_bits, "_states", {})
    bad, unsaid = {}, {}
    for call in CALLS:
        if call.name.partition(".")[0] == space:
            kinds = set()
            bad |= {case: text for case, text in answers(call, kinds).items() if text}
            if missing := {kind for kind in kinds if kind not in said_of(call)}:
                unsaid[call.name] = missing
    assert {case: text for case, text in bad.items() if case not in KNOWN} == {}
    assert unsaid == {}, "errors that no docstring names"
    mine = {
        case
        for case in KNOWN
        if case[0].partition(".")[0] == space and chosen(" ".join(case), SHARE)
    }
    assert mine <= bad.keys(), "no longer known: leave them out"


def test_the_sweep_is_large_and_its_judge_finds_what_is_bad():
    assert len(CALLS) > 700
    assert sum(len(list(cases(call))) for call in CALLS) > 70_000
    good = next(call for call in CALLS if call.name == "Tensor.histc")
    assert judge(good, {"bins": "a"}) == ""
    for raw in (lambda x, *_: None + x, lambda x, *_: math.sqrt("a"), lambda x, *_: [][x]):
        assert judge(good._replace(function=raw), {"self": 3})


def test_the_arguments_that_the_sweep_spoils_are_taken():
    """Else every odd call would fail for another reason."""
    needs_more = ("io.", "state.", "Tensor.from_cuda_array", "Tensor.from_url", "optim.Schedule")
    refused = {}
    for call in CALLS:
        if not call.name.startswith(needs_more) and (text := judge(call, {}, strict=True)):
            refused[call.name] = text
    assert refused == {}
    assert Tensor.relu(Tensor([1.0])).item() == 1
