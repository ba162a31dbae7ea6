"""Whether a call answers well: with a result, or with an error that a user can read.

A good error is one of treadle's that begins with the operation in brackets, or is about a setting,
and says nothing of Python's or NumPy's own objects; or the system's error about a file.

judge(call, odd) -> "" or what is wrong with the answer
"""

import re
import warnings

from treadle.errors import SettingError, UserError

__all__ = ["judge"]

# What Python or NumPy say of their own objects, which is no message to a user of tensors.
RAW = re.compile(
    r"has no attribute|object is not|'NoneType'|unsupported operand|not supported between|"
    r"\w+Error: |unhashable|cannot unpack|not enough values|must be real number|"
    r"(takes|missing) .* positional|keyword argument|index out of range|invalid literal|"
    r"not iterable|cannot be interpreted|not subscriptable|division by zero|an array element with"
)
NAMED = re.compile(r"^\[[\w., <>]+\] ")


def judge(call, odd, strict=False, kinds=None):
    """Call with the odd arguments: nothing if it answers well, else the error in one line.

    `strict`: no error is a good answer. The names of treadle's errors are added to `kinds`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(**odd)
    except Exception as error:
        if kinds is not None and isinstance(error, UserError):
            kinds.add(type(error).__name__)
        return "" if not strict and _is_good(error) else _told(error)
    return ""


def _is_good(error):
    text = str(error)
    if isinstance(error, SettingError):
        return " is not allowed: " in text
    if isinstance(error, UserError):
        return NAMED.match(text) and not RAW.search(text)
    return isinstance(error, OSError) and error.filename is not None


def _told(error):
    return f"{type(error).__name__}: {' / '.join(str(error).splitlines())}"
