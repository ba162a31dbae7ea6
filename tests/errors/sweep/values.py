"""Odd arguments, and the tensors that calls are made on.

Nothing here is shared between calls but what cannot change: a call that goes through may assign.
"""

import numpy as np

from treadle import Tensor, dtypes

__all__ = ["ODD", "RECEIVERS", "float_matrix"]


def float_matrix():
    return Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) + 1)


# Each kind of thing that somebody may give in place of another, by name.
ODD = {
    "a text": lambda: "a",
    "None": lambda: None,
    "a ragged list": lambda: [[1, 2], [3]],
    "an object": object,
    "1.5": lambda: 1.5,
    "True": lambda: True,
    "-1": lambda: -1,
    "-7": lambda: -7,
    "0": lambda: 0,
    "99": lambda: 99,
    "2 ** 70": lambda: 2**70,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1j": lambda: 1j,
    "()": lambda: (),
    "[0, 0]": lambda: [0, 0],
    "[None]": lambda: [None],
    "['a']": lambda: ["a"],
    "{}": dict,
    "a set": lambda: {1},
    "bytes": lambda: b"a",
    "a class": lambda: dict,
    "a function": lambda: len,
    "a dtype": lambda: dtypes.float32,
    "another shape": lambda: Tensor(np.ones((7, 5), np.float32)),
    "five axes": lambda: Tensor(np.ones((1, 2, 1, 2, 2), np.float32)),
    "no axis": lambda: Tensor(2.0),
    "integers": lambda: Tensor([[1, 2, 3], [4, 5, 6]]),
    "places that are not there": lambda: Tensor([99, -99]),
    "bools": lambda: Tensor([[True, False, True]] * 2),
    "complex numbers": lambda: Tensor([[1j, 2, 3], [4, 5, 6]]),
    "no elements": lambda: Tensor(np.ones((0, 3), np.float32)),
    "another device": lambda: Tensor(np.ones((2, 3), np.float32), device="CPU:1"),
    "an array of texts": lambda: np.array(["a", "b"]),
    "an array of objects": lambda: np.array([None, "b"], object),
}

RECEIVERS = {
    "float32": float_matrix,
    "int32": ODD["integers"],
    "uint8": lambda: Tensor([[1, 2, 3], [4, 5, 6]], dtype=dtypes.uint8),
    "bool": ODD["bools"],
    "complex64": ODD["complex numbers"],
    "()": ODD["no axis"],
    "(3,)": lambda: Tensor([1.0, 2.0, 3.0]),
    "(0, 3)": ODD["no elements"],
    "(3, 0)": lambda: Tensor(np.ones((3, 0), np.float32)),
    "(1, 2, 1, 2, 2)": ODD["five axes"],
}
