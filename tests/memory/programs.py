"""Random programs of writes, views, reads and captured functions, as Python text.

    program(seed)                  statements that the reference has run while they were chosen
    program(seed, sharded=True)    the same kinds over two devices
    varied(rng, text)              the same program with more realized, dropped or kept alive

Each statement is tried on the reference first: what the model leaves open, or floats would round,
is not asked, and what it refuses stands below `with refused(...)`.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import Any

import numpy as np

from .reference import Inexact, Refused, Storage, Tensor, Unclear
from .running import expected, reference_names

__all__ = ["program", "varied"]

_SHAPES = [
    (3,),
    (4,),
    (2, 3),
    (3, 2),
    (2, 2),
    (1, 3),
    (4, 1),
    (2, 3, 2),
    (1,),
    (2, 6),
    (4, 4),
    (8, 3),
]
_REFUSED = re.compile(r"[a-z0-9-]+")
_LARGEST = 64  # elements


class Writer:
    """The statements so far, and the reference's tensors after them."""

    def __init__(self, seed: int, sharded: bool) -> None:
        self.rng, self.sharded = random.Random(seed), sharded
        self.lines: list[str] = []
        self.space = reference_names([])
        self.numbers = itertools.count()
        self.dtype = self.rng.choice(["float32", "float32", "int32"])
        self.graded = self.dtype == "float32" and self.chance(0.3)
        self.family = self.rng.sample(_SHAPES, 2)
        # matrices that captured functions keep packed, whose products are kernels of their own
        self.large = self.dtype == "float32" and not self.graded and self.chance(0.12)
        if self.large:
            self.family = [(64, 64), (4, 64)]
        self.functions: dict[str, list[tuple[tuple[int, ...], str]]] = {}
        self.captured: set[str] = set()

    # -- what there is --------------------------------------------------------------------------

    def new(self, letter: str = "t") -> str:
        return f"{letter}{next(self.numbers)}"

    def tensors(self) -> dict[str, Tensor]:
        return {
            name: value for name, value in self.space.items()
            if isinstance(value, Tensor) and not value.is_lost
        }  # fmt: skip

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # -- statements -----------------------------------------------------------------------------

    def tried(self, line: str, local: dict[str, Any] | None = None) -> list[str] | None:
        """The statement's lines once the reference has run it, or None where it shall not stand."""
        state = self._state(local)
        try:
            if local is None:
                exec(line, self.space)
            else:
                exec(line, self.space, local)
        except Refused as error:
            self._restore(state, local)
            if local is not None or "\n" in line:
                return None
            return [f'with refused("{error.args[0]}"):', f"    {line}"]
        except (Unclear, Inexact):
            self._restore(state, local)
            return None
        large = [
            name for name, value in {**self.space, **(local or {})}.items()
            if isinstance(value, Tensor) and value.values.size > (4096 if self.large else _LARGEST)
        ]  # fmt: skip
        if large:
            self._restore(state, local)
            return None
        return line.split("\n")

    def add(self, line: str) -> bool:
        lines = self.tried(line)
        self.lines += lines or []
        return lines is not None

    def _state(self, local: dict[str, Any] | None) -> Any:
        spaces = [dict(self.space), None if local is None else dict(local)]
        found = [v for space in spaces if space for v in space.values() if isinstance(v, Tensor)]
        storages: set[Storage] = {t.storage for t in found}
        found += [owner for s in storages if (owner := s.owner()) is not None]
        return spaces, [(each, dict(vars(each))) for each in (*found, *storages)]

    def _restore(self, state: Any, local: dict[str, Any] | None) -> None:
        spaces, attributes = state
        for space, before in ((self.space, spaces[0]), (local, spaces[1])):
            if space is not None:
                space.clear()
                space.update(before)
        for each, before in attributes:
            vars(each).clear()
            vars(each).update(before)
            if isinstance(each, Storage) and each.memory is not None:
                each.memory.reshape(-1)[:] = each.values

    # -- expressions ----------------------------------------------------------------------------

    def number(self) -> str:
        value = self.rng.choice([0, 1, 2, 3, 5, -1, -2])
        return f"{value}.0" if self.dtype == "float32" and self.chance(0.7) else str(value)

    def literal(self, shape: tuple[int, ...]) -> str:
        """A tensor of data, made in one of the ways that there are."""
        rng, count = self.rng, math.prod(shape)
        first = rng.randrange(-3, 9)
        isfloat = self.dtype == "float32"
        kind = rng.choice(["list", "list", "array", "zeros", "ones", "full", "arange"])
        if count > _LARGEST and kind in ("list", "array", "arange"):
            text = (
                f"Tensor(np.arange({count}, dtype=np.float32).reshape({shape}) % {2 + first % 3})"
            )
        elif kind == "list":
            flat = iter(range(first, first + count))

            def nested(sizes: tuple[int, ...]) -> Any:
                if not sizes:
                    return float(next(flat)) if isfloat else next(flat)
                return [nested(sizes[1:]) for _ in range(sizes[0])]

            text = f"Tensor({nested(shape)})"
        elif kind == "array":
            text = f"Tensor(np.arange({count}, dtype=np.{self.dtype}).reshape({shape}))"
        elif kind in ("zeros", "ones") and isfloat:
            text = f"Tensor.{kind}({', '.join(map(str, shape))})"
        elif kind == "arange" and not isfloat:
            text = f"(Tensor.arange({count}) + 0).reshape({self.sizes(shape)})"
        else:
            text = f"Tensor.full({shape}, {float(first) if isfloat else first})"
        text += rng.choice(["", "", "", ".contiguous()", " * 2", ".contiguous().realize()"])
        if text.endswith(" * 2"):
            text = f"({text})"
        if self.sharded:
            axes = [axis for axis, n in enumerate(shape) if n >= 2]
            axis = rng.choice([None, *axes, *axes])
            text += ".shard(D)" if axis is None else f".shard(D, {axis})"
        return text + (".realize()" if self.chance(0.4) else "")

    def index(self, shape: tuple[int, ...], lists: bool = False) -> str:
        rng = self.rng
        if self.chance(0.1):
            return rng.choice(["...", ":", "()"]) if shape else rng.choice(["...", "()"])
        items = []
        for n in shape[: rng.randrange(1, len(shape) + 1)] if shape else ():
            begin = rng.randrange(n)
            end = rng.randrange(begin, n) + 1
            items.append(
                rng.choice([":", f"{begin}:{end}", f"{begin}:{end}", f"{begin}:", str(begin),
                            str(begin - n), "::-1", "::2"])
            )  # fmt: skip
        if lists and items and self.chance(0.15):
            places = rng.sample(range(shape[0]), rng.randrange(1, shape[0] + 1))
            items[0] = str(places)
        if self.chance(0.05):
            items.insert(0, "None")
        return ", ".join(items) or "..."

    def movement(self, x: str, tensor: Tensor) -> str:
        """A view of `x`."""
        rng, shape = self.rng, tensor.shape
        kinds = [
            "index",
            "index",
            "index",
            "reshape",
            "reshape",
            "same",
            "permute",
            "flip",
            "detach",
        ]
        kinds += ["expand", "pad", "shrink", "squeeze", "unsqueeze", "flatten", "turned"]
        kind = rng.choice(kinds)
        if kind == "index":
            return f"{x}[{self.index(shape)}]"
        if kind == "reshape":
            return f"{x}.reshape({self.factors(tensor.values.size)})"
        if kind == "same":
            texts = [f"reshape({self.sizes(shape)})", "detach()"]
            if shape:
                texts += [
                    f"permute({self.sizes(range(len(shape)))})",
                    f"expand({self.sizes(shape)})",
                ]
                texts += [f"pad({tuple((0, 0) for _ in shape)})"]
                texts += [f"shrink({tuple((0, n) for n in shape)})"]
            return f"{x}.{rng.choice(texts)}"
        if kind == "permute" and shape:
            order = rng.sample(range(len(shape)), len(shape))
            return f"{x}.permute({self.sizes(order)})"
        if kind == "flip" and shape:
            return f"{x}.flip({rng.randrange(len(shape))})"
        if kind == "expand":
            if 1 in shape and self.chance(0.7):
                return f"{x}.expand({self.sizes(2 if n == 1 else n for n in shape)})"
            return f"{x}.expand({self.sizes((2, *shape))})"
        if kind == "pad" and shape:
            return f"{x}.pad({tuple((rng.randrange(2), rng.randrange(2)) for _ in shape)})"
        if kind == "shrink" and shape:
            begins = [rng.randrange(n) for n in shape]
            pairs = [(b, rng.randrange(b, n) + 1) for b, n in zip(begins, shape, strict=True)]
            return f"{x}.shrink({tuple(pairs)})"
        if kind == "unsqueeze":
            return f"{x}.unsqueeze({rng.randrange(len(shape) + 1)})"
        if kind == "turned" and len(shape) > 1:
            return rng.choice([f"{x}.T", f"{x}.transpose(0, {len(shape) - 1})"])
        return rng.choice([f"{x}.flatten()", f"{x}.squeeze()", f"{x}.detach()"])

    def sizes(self, sizes: Any) -> str:
        text = ", ".join(map(str, sizes))
        return text or "()"

    def factors(self, count: int) -> str:
        divisors = [n for n in range(1, count + 1) if count % n == 0] or [1]
        first = self.rng.choice(divisors)
        return self.rng.choice(["-1", f"{first}, {count // first}", f"{first}, -1", f"1, {count}"])

    def partner(self, pool: dict[str, Tensor], shape: tuple[int, ...], into: bool) -> str | None:
        """A tensor that broadcasts with `shape`, or, for a value to write, to it."""

        def fits(other: tuple[int, ...]) -> bool:
            pairs = zip(reversed(shape), reversed(other), strict=False)
            if into:
                return len(other) <= len(shape) and all(b in (a, 1) for a, b in pairs)
            return all(a == b or 1 in (a, b) for a, b in pairs)

        names = [name for name, t in pool.items() if fits(t.shape)]
        return self.rng.choice(names) if names else None

    def result(self, pool: dict[str, Tensor], x: str) -> str:
        """An operation on `x`, whose result is memory of its own."""
        rng, shape = self.rng, pool[x].shape
        kinds = ["binary"] * 4 + ["scalar"] * 3 + ["nothing"] * 2
        kinds += ["reduce", "reduce", "where", "copy", "join", "roll", "gather", "matmul", "scan"]
        kind = rng.choice(kinds)
        y = self.partner(pool, shape, into=False)
        if kind == "binary" and y is not None:
            texts = [f"{x} + {y}", f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x}.maximum({y})"]
            return rng.choice(texts)
        if kind == "where" and y is not None:
            return f"({x} < {self.number()}).where({x}, {y})"
        if kind == "nothing":  # what folds to x itself
            return rng.choice([f"{x} + 0", f"{x} * 1", f"{x}.contiguous()", f"{x}.clone()"])
        if kind == "reduce":
            axis = rng.choice([None, *range(len(shape))])
            name = rng.choice(["sum", "sum", "max", "min"])
            if axis is None:
                return f"{x}.{name}()"
            return f"{x}.{name}({axis}{', keepdim=True' if self.chance(0.5) else ''})"
        if kind == "join" and shape:
            axis = rng.randrange(len(shape))
            return rng.choice([f"{x}.cat({x}, dim={axis})", f"{x}.stack({x}, dim={axis})"])
        if kind == "roll" and shape:
            return f"{x}.roll({rng.randrange(3)}, {rng.randrange(len(shape))})"
        if kind == "scan" and shape:
            return f"{x}.cumsum({rng.randrange(len(shape))})"
        if kind == "gather" and shape and shape[0] > 1:
            return f"{x}[{rng.choices(range(shape[0]), k=2)}]"
        if self.large and len(shape) == 2 and self.chance(0.3):
            right = [n for n, t in pool.items() if t.ndim == 2 and t.shape[0] == shape[1]]
            if right:
                return f"{x} @ {rng.choice(right)}"
        if kind == "matmul" and len(shape) == 2:
            return f"{x} @ {x}.T"
        if kind == "copy":
            return rng.choice([f"{x}.contiguous()", f"{x}.clone()", f"-{x}"])
        number = self.number()
        return rng.choice([f"{x} * 2", f"{x} + {number}", f"{number} - {x}", f"{x}.relu()"])

    def value(self, pool: dict[str, Tensor], shape: tuple[int, ...]) -> str:
        """What is written where `shape` is shown."""
        name = self.partner(pool, shape, into=True)
        kind = self.rng.choice(["name", "name", "scalar", "result", "result", "literal", "view"])
        if kind == "literal" and not self.sharded:
            return self.literal(shape)
        if name is None or kind == "scalar":
            return self.number()
        if kind == "result":
            return self.rng.choice(
                [f"{name} + 1", f"{name} * 2", f"{name} - {name}", f"{name} + 0"]
            )
        if kind == "view":
            turned = "" if not pool[name].ndim else f".flip({self.rng.randrange(pool[name].ndim)})"
            return f"{name}{turned}"
        return name

    def write(self, pool: dict[str, Tensor], x: str) -> str:
        """A statement that writes to `x` or through a view of it."""
        rng, tensor = self.rng, pool[x]
        kind = rng.choice(["assign", "assign", "item", "item", "add", "add", "inline", "part"])
        if kind == "assign":
            return f"{x}.assign({self.value(pool, tensor.shape)})" + self.maybe_realized()
        if kind == "add":
            operator = rng.choice(["+=", "+=", "-=", "*="])
            return f"{x} {operator} {self.value(pool, tensor.shape)}"
        if kind == "inline":
            view = self.movement(x, tensor)
            shape = eval(view, {}, pool).shape
            return f"{view}.assign({self.value(pool, shape)})" + self.maybe_realized()
        index = self.index(tensor.shape, lists=kind == "item")
        shape = tensor.values[eval(f"_[{index}]", {"_": _Index()})].shape
        if kind == "part" and "[" not in index:
            return f"{x}[{index}] {rng.choice(['+=', '*='])} {self.value(pool, shape)}"
        return f"{x}[{index}] = {self.value(pool, shape)}"

    def maybe_realized(self) -> str:
        return ".realize()" if self.chance(0.25) else ""

    # -- programs -------------------------------------------------------------------------------

    def create(self) -> None:
        shape = self.rng.choice(self.family)
        self.add(f"{self.new()} = {self.literal(shape)}")

    def blob(self) -> None:
        """Memory of an array, in place."""
        shape, array = self.rng.choice(self.family), self.new("n")
        given = f'{array}.ctypes.data, {shape}, "{self.dtype}", owner={array}'
        given += ", readonly=True" if self.chance(0.2) else ""
        self.add(f"{array} = np.arange({math.prod(shape)}, dtype=np.{self.dtype})")
        self.add(f"{self.new()} = Tensor.from_blob({given})")

    def memory(self) -> None:
        """A look at such memory, or a change of it by its owner, once nothing is pending."""
        arrays = {id(v): name for name, v in self.space.items() if isinstance(v, np.ndarray)}
        pool = self.tensors()
        blobs = {
            name: arrays[id(t.storage.memory)] for name, t in pool.items()
            if id(t.storage.memory) in arrays and not t.is_view
        }  # fmt: skip
        if not blobs:
            return
        name = self.rng.choice(list(blobs))
        if self.chance(0.6):
            self.add(f"show_memory({name}, {blobs[name]})")
        else:
            number = self.rng.randrange(20, 30)
            self.add(f"change_memory({name}, {blobs[name]}, {number}, {', '.join(pool)})")

    def leaf(self) -> None:
        """A tensor to differentiate by."""
        text = f"Tensor({self.rng.choice(['[1.0, 2.0]', '[[1.0], [3.0]]', '[2.0, -1.0, 1.0]'])})"
        if self.sharded:
            text += self.rng.choice([".shard(D)", ".shard(D, 0)"])
        self.add(f"{self.new('w')} = {text}.requires_grad_()")

    def gradient(self, pool: dict[str, Tensor], local: bool) -> str | None:
        """A statement that asks for a gradient, or one that uses it as an optimiser does."""
        rng = self.rng
        leaves = [name for name, t in pool.items() if t.leaf is not None]
        graded = [name for name, t in pool.items() if t.slopes]
        if not leaves or not graded:
            return None
        w, x = rng.choice(leaves), rng.choice(graded)
        y = self.partner(pool, pool[x].shape, into=False)
        name = self.new("u" if local else "t")
        kind = rng.choice(["gradient", "gradient", "backward", "update", "update"])
        loss = f"({x} * {y}).sum()"
        if kind == "gradient":
            return f"{name} = {loss}.gradient({w}, materialize_grads=True)[0].detach()"
        if kind == "backward":
            return f"{w}.grad = None\nbackward({loss}, {w})\n{name} = {w}.grad.detach()"
        value = self.value(pool, pool[w].shape)
        part = f"[{self.index(pool[w].shape)}]"
        change = rng.choice([f"{w}{rng.choice(['', part])} -= {value}", f"{w}.assign({value})",
                             f"{w}{part} = {self.number()}"])  # fmt: skip
        return f"with Tensor.no_grad():\n    {change}"

    def derive(self, pool: dict[str, Tensor], local: bool = False) -> str:
        x = self.rng.choice(list(pool))
        name = self.new("u" if local else "t")
        if self.chance(0.5):
            return f"{name} = {self.movement(x, pool[x])}"
        text = f"{name} = {self.result(pool, x)}"
        return text + (".realize()" if text.endswith((")", "]")) and self.chance(0.3) else "")

    def step(self) -> None:
        """One statement outside of functions."""
        pool = self.tensors()
        kind = self.rng.choice(["derive"] * 4 + ["write"] * 4 + ["show"] * 3
                               + ["realize", "drop", "alias", "create"]
                               + ["gradient"] * 5 * self.graded + ["memory"])  # fmt: skip
        x = self.rng.choice(list(pool))
        if kind == "derive":
            self.add(self.derive(pool))
        elif kind == "write":
            self.add(self.write(pool, x))
        elif kind == "gradient":
            self.add(self.gradient(pool, local=False) or f"show({x})")
        elif kind == "show":
            self.add(f"show({x})")
        elif kind == "memory":
            self.memory()
        elif kind == "realize":
            self.add(
                self.rng.choice(
                    [f"{x}.realize()", f"Tensor.realize({x}, {self.rng.choice(list(pool))})"]
                )
            )
        elif kind == "drop":
            if x not in self.captured and len(pool) > 3:
                self.add(f"del {x}")
        elif kind == "alias":
            self.add(f"{self.new()} = {x}")
        else:
            self.create()

    def function(self) -> None:
        """A captured function of one or two tensors, and of some that are there already."""
        rng, pool = self.rng, self.tensors()
        shapes = [rng.choice(self.family) for _ in range(rng.choice([1, 1, 2]))]
        parameters = [f"a{number}" for number in range(len(shapes))]
        outer = {
            name: pool[name]
            for name in rng.sample(list(pool), min(len(pool), rng.choice([1, 2, 2, 3])))
        }
        before = self._state(None)
        local: dict[str, Any] = {}
        for name, shape in zip(parameters, shapes, strict=True):
            exec(f"{name} = {self.full(shape)}", self.space, local)
        body: list[str] = []
        for _ in range(rng.randrange(1, 6)):
            inner = {**outer, **{n: t for n, t in local.items() if isinstance(t, Tensor)}}
            x = rng.choice(list(inner))
            kinds = ["derive"] * 2 + ["write"] * 3 + ["realize"] + ["gradient"] * 4 * self.graded
            kind = rng.choice(kinds)
            if kind == "derive":
                line = self.derive(inner, local=True)
            elif kind == "write":
                line = self.write(inner, x)
            elif kind == "gradient":
                line = self.gradient(inner, local=True) or self.derive(inner, local=True)
            else:
                line = f"{x}.realize()"
            body += self.tried(line, local) or []
        inner = {**outer, **{n: t for n, t in local.items() if isinstance(t, Tensor)}}
        choices = [*(n for n in inner if n in local), *inner]
        results = rng.choice([0, 1, 1, 1, 2])
        returned = [rng.choice(choices) for _ in range(results)]
        texts = [self.returned(name, inner[name]) for name in returned]
        changed = [
            n for n in outer if any(re.match(rf"\s*{n}(\[.*\])? [-+*]?= ", line) for line in body)
        ]
        self._restore(before, None)
        name = self.new("f")
        lines = ["@TinyJit", f"def {name}({', '.join(parameters)}):"]
        lines += [f"    global {', '.join(changed)}"] if changed else []
        lines += [f"    {line}" for line in body]
        if texts or not body:
            lines.append(f"    return {', '.join(texts) or None}")
        exec("\n".join(lines), self.space)
        self.lines += lines
        self.captured |= outer.keys()
        self.functions[name] = [(shape, self.dtype) for shape in shapes]
        self.space[f"_{name}"] = (results, set(outer))

    def full(self, shape: tuple[int, ...]) -> str:
        return f"Tensor.full({shape}, {1.0 if self.dtype == 'float32' else 1})"

    def returned(self, name: str, tensor: Tensor) -> str:
        if tensor.slopes:
            return f"({name} * 1).detach()"
        if self.chance(0.3):
            return f"{name}.realize()"
        return name if self.chance(0.7) else f"{name} + 1"

    def argument(self, shape: tuple[int, ...], dtype: str) -> str:
        rng = self.rng
        pool = {n: t for n, t in self.tensors().items() if str(t.dtype) == dtype and not t.slopes}
        fitting = [n for n, t in pool.items() if t.shape == shape]
        if fitting and self.chance(0.6):
            name = rng.choice(fitting)
            return rng.choice(
                [name, name, name, f"{name} + 1", f"{name}.flip(0)", f"{name}.realize()"]
            )
        larger = [n for n, t in pool.items() if t.ndim and t.values.size == math.prod(shape)]
        if larger and self.chance(0.5):
            return f"{rng.choice(larger)}.reshape({self.sizes(shape)})"
        return self.literal(shape)

    def called(self, name: str) -> None:
        """A call, with other arguments than those before."""
        results, outer = self.space[f"_{name}"]
        arguments = [self.argument(*like) for like in self.functions[name]]
        if self.sharded or self.shares(arguments, outer):  # pieces lie in one way in all calls
            text = f"call({name}, {', '.join(arguments)})"
        else:
            text = f"{name}({', '.join(arguments)})"
        if results:
            text = ", ".join(self.new("r") for _ in range(results)) + f" = {text}"
        state = self._state(None)
        lines = self.tried(text)
        if lines is None or lines[0] != text:  # refused in the middle of a call
            self._restore(state, None)
            return
        self.lines += lines

    def shares(self, arguments: list[str], outer: set[str]) -> bool:
        """Whether two arguments, or one and what the function captures, share a storage."""
        pool = self.tensors()
        found: set[int] = {pool[n].storage.number for n in outer if n in pool}
        for text in arguments:
            name = re.match(r"\w+", text)
            tensor = pool.get(name.group()) if name else None
            if tensor is not None and " + " not in text:
                if tensor.storage.number in found:
                    return True
                found.add(tensor.storage.number)
        return False

    def write_program(self) -> str:
        rng = self.rng
        for _ in range(rng.randrange(2, 4)):
            self.create()
        for _ in range(rng.choice([1, 1, 2]) if self.graded else 0):
            self.leaf()
        if not self.sharded and self.chance(0.15):
            self.blob()
        for _ in range(rng.randrange(4)):
            self.step()
        if self.chance(0.8):
            for _ in range(rng.choice([1, 1, 2])):
                self.function()
        calls = [name for name in self.functions for _ in range(rng.randrange(4, 7))]
        rng.shuffle(calls)
        for name in calls:
            self.called(name)
            for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
                self.step()
        if not calls:
            for _ in range(rng.randrange(5, 14)):
                self.step()
        for name in self.tensors():
            self.add(f"show({name})")
        return "\n".join(self.lines)


class _Index:
    def __getitem__(self, index: Any) -> Any:
        return index


def program(seed: int, sharded: bool = False) -> str:
    """The text of a program: names that `running.names` gives, and its own."""
    return Writer(seed, sharded).write_program()


def varied(rng: random.Random, text: str) -> str:
    """The same program: more is realized, dropped after its last use, or kept alive.

    None of this changes a value, as the reference is asked to confirm.
    """
    wanted = expected(text)
    for _ in range(4):
        other = _changed(rng, text.split("\n"))
        if other is not None and _shows(other, wanted):
            text = other
    return text


def _changed(rng: random.Random, lines: list[str]) -> str | None:
    """One tensor of a program realized somewhere, dropped or kept; it may be none any more."""
    made = [m.group(1) for line in lines if (m := re.match(r"([trw]\d+)\b.* = ", line))]
    ends = [at for at, line in enumerate(lines, 1) if _ends_statement(lines, at, line)]
    if not made:
        return None
    name = rng.choice(made)
    used = [at for at, line in enumerate(lines) if re.search(rf"\b{name}\b", line)]
    kind = rng.choice(["realize", "realize", "drop", "keep"])
    if kind == "drop":
        at, line = used[-1] + 1, f"del {name}"
    else:
        at = rng.choice([at for at in ends if at > used[0]] or [len(lines)])
        line = f"{name}.realize()" if kind == "realize" else f"kept{at} = {name}[...]"
    return "\n".join([*lines[:at], line, *lines[at:]])


def _ends_statement(lines: list[str], at: int, line: str) -> bool:
    return not line.startswith("@") and (at == len(lines) or not lines[at].startswith(" "))


def _shows(text: str, wanted: list[np.ndarray]) -> bool:
    try:
        found = expected(text)
    except (NameError, SyntaxError, Refused, Unclear, Inexact):
        return False
    return len(found) == len(wanted) and all(map(np.array_equal, found, wanted))
