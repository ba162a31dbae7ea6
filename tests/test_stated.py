"""A docstring says what a reader of help() needs: shapes, dtypes and errors, each name by itself.

Its words are looked for in the text, and what they say is held against what calls do: a result in
another dtype than what went in is named, and so is the error about a dtype, a shape or an axis that
does not fit. The calls are those of the sweep (tests/errors/sweep), which has arguments for each.
"""

import inspect
import re
import warnings

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import UserError

from .errors.sweep.calls import all_calls
from .public import NAMES

SHAPES = re.compile(
    r"\belement(s|wise)?\b|\bshapes?\b|\bax[ei]s\b|\bbroadcast|\bscalars?\b|\bvectors?\b|"
    r"\bmatri(x|ces)\b|\bimages?\b|\(\.\.[),]|\([\w*]+( [*/+-]+ \w+)*,( [^()]+)?\)",
    re.IGNORECASE,
)
DTYPES = re.compile(
    r"\bdtypes?\b|\b(half|halve|float|bool|integer)s?\b|\b(uint|int|float|complex)\d+\b|\bcomplex\b|"
    r"\breals?\b",
    re.IGNORECASE,
)
OF_TENSORS = re.compile(r"\b(Tensor|Params|ndarray)\b")

# What a docstring says of a result in a dtype that did not go in.
NAMED_BY = {
    dtypes.bool: r"\bbools?\b", dtypes.int32: r"\bint32\b", dtypes.uint8: r"\buint8\b",
    dtypes.float16: r"\bfloat16\b", dtypes.float32: r"\bfloats?\b|float32|default_float|\breals?\b",
    dtypes.complex64: r"\bcomplex", dtypes.complex128: r"\bcomplex", dtypes.int64: r"\bint64\b",
    dtypes.float64: r"\bfloat64\b", dtypes.int16: r"\bint16\b", dtypes.bfloat16: r"\bbfloat16\b",
}  # fmt: skip
KINDS = (dtypes.float32, dtypes.float16, dtypes.int32, dtypes.bool, dtypes.complex64)
AXES = ("dim", "axis", "dims", "axes", "dim0", "dim1", "dim2", "start_dim", "end_dim", "source")
# What answers as files, other libraries or functions do that are not treadle's.
THEIRS = ("io.", "state.", "Tensor.from_url", "Tensor.from_cuda_array", "Tensor.sequential",
          "optim.Schedule")  # fmt: skip
CALLS = [call for call in all_calls() if not call.name.startswith(THEIRS)]


def text_of(function):
    return inspect.getdoc(function) or ""


def errors_in(name, function):
    """The text, and that of those whose errors it names as its own: "Raises as `cat`"."""
    text = text_of(function)
    others = re.findall(r"Raises\s+as\s+`(\w+)`", text)
    home = name.rpartition(".")[0]
    return " ".join([text, *(text_of(NAMES[f"treadle.{home}.{other}"]) for other in others)])


def is_of_tensors(name, value):
    """Whether tensors go in or come out: of a class, where its objects are called."""
    if inspect.isclass(value):
        called = [vars(kind)[key] for kind in value.__mro__[:-1] for key in ("__init__", "__call__")
                  if inspect.isfunction(vars(kind).get(key))]  # fmt: skip
        return ".nn." in name and any(is_of_tensors("", function) for function in called)
    signature = inspect.signature(value)
    kinds = [str(one.annotation) for one in signature.parameters.values()]
    gives = str(signature.return_annotation)
    of_functions = value.__module__.startswith("treadle.func.")
    gives_it = value.__module__.startswith("treadle.tensor.") and re.search("Self|Any", gives)
    return any(map(OF_TENSORS.search, (*kinds, gives))) or of_functions or bool(gives_it)


@pytest.mark.parametrize(("what", "words"), [("shapes", SHAPES), ("dtypes", DTYPES)])
def test_a_docstring_says_which_shapes_and_dtypes(what, words):
    silent = [name for name, value in NAMES.items()
              if is_of_tensors(name, value) and not words.search(text_of(value))]  # fmt: skip
    assert silent == [], f"says nothing of {what}"


def test_the_words_are_looked_for_in_what_takes_or_gives_tensors():
    looked = {name for name, value in NAMES.items() if is_of_tensors(name, value)}
    few = {"Tensor.scatter_reduce", "Tensor.item", "nn.Linear", "vmap", "nn.optim.Adam", "fft.fft"}
    assert {f"treadle.{name}" for name in few} <= looked
    assert len(looked) > 700
    assert not looked & {"treadle.Tensor.train", "treadle.Tensor.nbytes", "treadle.Context"}


# -- what calls do ---------------------------------------------------------------------------------


def tensors_in(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def has_tensors(value):
    return next(tensors_in(value), None) is not None


def changed(value, change):
    """The tensors inside of an argument changed, all else as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and has_tensors(value):
        return type(value)(changed(item, change) for item in value)
    return value


def in_kind(value, kind):
    return changed(value, lambda x: x.cast(kind) if x.dtype == dtypes.float32 else x)


def of_other_shape(value):
    return changed(value, lambda x: Tensor(np.ones((7, 5), np.float32)).cast(x.dtype))


def answer(call, **given):
    """(tensors that come back, the name of the error that is raised instead)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(tensors_in(call(**given))), ""
    except UserError as error:
        return [], type(error).__name__


def answers_in_each_dtype(call):
    """The dtypes that went in, what came back in others, and the errors."""
    for kind in KINDS:
        given = {key: in_kind(make(), kind) for key, make in call.makers.items()}
        before = {one.dtype for one in tensors_in(list(given.values()))}
        results, error = answer(call, **given)
        yield kind, [one.dtype for one in results if one.dtype not in before], error


def misfits(call):
    """Arguments that do not fit by their shape, or name an axis that there is not."""
    tensors = {key: make() for key, make in call.makers.items() if has_tensors(make())}
    for key, value in tensors.items():
        yield {key: of_other_shape(value)}
    for key, parameter in call.signature.parameters.items():
        is_tuple = isinstance(parameter.default, tuple)
        if key in AXES and not is_tuple and key not in tensors:
            yield {key: 9}


def test_a_docstring_names_the_dtypes_of_results_that_did_not_go_in():
    silent = {}
    for call in CALLS:
        for kind, others, _ in answers_in_each_dtype(call):
            for dtype in others if "dtype" not in call.makers else ():  # else it was asked for
                if not re.search(NAMED_BY[dtype], text_of(call.function)):
                    silent.setdefault(call.name, set()).add(f"{kind.name} gives {dtype.name}")
    assert silent == {}


def test_a_docstring_names_the_errors_about_dtypes_shapes_and_axes():
    silent = {}
    for call in CALLS:
        errors = {error for *_, error in answers_in_each_dtype(call)}
        errors |= {answer(call, **given)[1] for given in misfits(call)}
        said = errors_in(call.name.replace("optim.", "nn.optim."), call.function)
        if missing := {error for error in errors if error not in said}:
            silent[call.name] = missing
    assert silent == {}
