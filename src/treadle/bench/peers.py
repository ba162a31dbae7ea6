"""Who is measured: the columns of the table, each a library of `libraries/`.

    run = PEERS["torch"].library().prepare(work)
    run()

Nothing is imported before `library`; `installed` looks packages up without loading them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .libraries.base import Library
from .work import Work

__all__ = ["PEERS", "Peer", "installed", "takes_part"]


@dataclass(frozen=True)
class Peer:
    """One way to run a Work.

    It takes part always, in full runs, in full runs where a bar names it, or when asked for.
    """

    packages: tuple[str, ...]
    library: Callable[[], Library]
    default: Literal["always", "full", "bars", "asked"] = "always"


def installed(peer: Peer) -> bool:
    """Whether the packages of a peer can be imported here."""
    return all(importlib.util.find_spec(package) for package in peer.packages)


def takes_part(name: str, work: Work, quick: bool) -> bool:
    """Whether a peer that nobody asked for runs in this row; a smoke test has no slow compilers."""
    if work.peers:
        return name == "treadle" or name in work.peers
    default = PEERS[name].default
    named = default == "bars" and any(name in bar.against for bar in work.bars)
    return default == "always" or (not quick and (default == "full" or named))


def _library(module: str, name: str, *args: object) -> Callable[[], Library]:
    @functools.cache
    def library() -> Library:
        found = importlib.import_module(f".libraries.{module}", __package__)
        return getattr(found, name)(*args)

    return library


# In the order of the table's columns; the first is what all others are compared with.
PEERS: dict[str, Peer] = {
    "treadle": Peer(("treadle",), _library("tensor", "TensorLibrary", "treadle")),
    "treadle lazy": Peer(("treadle",), _library("tensor", "TensorLibrary", "treadle", False)),
    "torch": Peer(("torch",), _library("pytorch", "Torch")),
    "torch out=": Peer(("torch",), _library("pytorch", "TorchOut")),
    "torch.compile": Peer(("torch",), _library("pytorch", "TorchCompile"), "bars"),
    "torch treadle": Peer(("torch", "treadle"), _library("pytorch", "TorchTreadle"), "asked"),
    "numpy": Peer(("numpy",), _library("arrays", "NumPy")),
    "jax": Peer(("jax",), _library("xla", "Jax"), "full"),
    "onnxruntime": Peer(("onnxruntime", "onnx"), _library("onnx", "Onnx")),
    "tinygrad": Peer(("tinygrad",), _library("tensor", "TensorLibrary", "tinygrad"), "asked"),
    "bandwidth": Peer(("numpy",), _library("bandwidth", "Bandwidth")),
}
