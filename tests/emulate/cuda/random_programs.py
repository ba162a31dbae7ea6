"""Random programs in what C and CUDA C have in common, with one meaning on every machine.

    program = RandomProgram(seed).text()        # defines `uint64 body(uint32, int32, float, ...)`

Integers wrap, quotients and conversions are guarded, floats are rounded after each operation: what
NVRTC and the emulator make of one has to be, bit by bit, what a compiler for the processor makes.
"""

from __future__ import annotations

import random

NAMES = {
    "u32": "unsigned", "i32": "int", "u64": "unsigned long long", "i64": "long long",
    "u16": "unsigned short", "i16": "short", "u8": "unsigned char", "i8": "signed char",
    "f32": "float", "f64": "double",
}  # fmt: skip
PARAMETERS = {"a": "u32", "b": "i32", "c": "f32", "d": "f64", "e": "i64"}
_NUMBERS = (0, 1, 2, 3, 7, 31, 127, 128, 255, 1000, 65535, 0x7FFFFFFF, 0x80000001, 0xDEADBEEF)
_REALS = ("1.5", "-0.25", "3.0", "0.1", "1e3")
_OPERATIONS = ("+", "-", "*", "&", "|", "^", "<<", ">>", "/", "%", "~", "!", "rotate")

Variables = list[tuple[str, str]]


def is_float(kind: str) -> bool:
    return kind[0] == "f"


def helpers() -> str:
    """What programs call: bits of floats, and quotients and conversions that are always defined."""
    lines = []
    for kind, bits in (("f32", "unsigned"), ("f64", "unsigned long long")):
        lines.append(
            f"DEV unsigned long long bits_{kind}({NAMES[kind]} x) {{ if (x != x) return 77; "
            f"union {{ {NAMES[kind]} x; {bits} n; }} both; both.x = x; return both.n; }}"
        )
    for kind, name in NAMES.items():
        if is_float(kind):
            continue
        bits, signed = int(kind[1:]), kind[0] == "i"
        most = min((1 << (bits - signed)) - 1, 1 << 30)
        least = -most if signed else 0
        lines.append(
            f"DEV {name} whole_{kind}(double x) {{ if (!(x > {least}.0)) return ({name}){least}; "
            f"if (x > {most}.0) return ({name}){most}; return ({name})x; }}"
        )
        guard = "if (b == 0) return 5;" + " if (b == -1) return 9;" * signed
        for word, sign in (("quotient", "/"), ("rest", "%")):
            lines.append(
                f"DEV {name} {word}_{kind}({name} a, {name} b) {{ {guard} return a {sign} b; }}"
            )
    return "\n".join(lines)


class RandomProgram:
    """One program: two functions, and `body`, which calls them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions: list[tuple[str, str, list[str]]] = []
        self.count = self.loops = 0

    def text(self) -> str:
        return "\n".join([*(self._function(n) for n in range(2)), self._body()])

    def _function(self, number: int) -> str:
        kinds = [self._kind() for _ in range(self.random.randrange(1, 4))]
        result, name = self._kind(), f"fn{number}"
        variables = [(f"p{i}", kind) for i, kind in enumerate(kinds)]
        parameters = ", ".join(f"{NAMES[kind]} {variable}" for variable, kind in variables)
        lines = [f"DEV {NAMES[result]} {name}({parameters}) {{", "  unsigned long long acc = 1;",
                 "  unsigned long long tab[16]; for (int q = 0; q < 16; q++) tab[q] = q * 7;",
                 *self._statements(3, 1, variables)]  # fmt: skip
        value = self._value(result, 2, variables)
        lines.append(f"  return ({NAMES[result]})({value} + ({NAMES[result]})(acc & 63)); }}")
        self.functions.append((name, result, kinds))
        return "\n".join(lines)

    def _body(self) -> str:
        parameters = ", ".join(f"{NAMES[kind]} {name}" for name, kind in PARAMETERS.items())
        lines = [f"DEV unsigned long long body({parameters}) {{", "  unsigned long long acc = 1;",
                 "  unsigned long long tab[16]; for (int q = 0; q < 16; q++) tab[q] = a + q;",
                 *self._statements(7, 2, list(PARAMETERS.items())),
                 "  for (int q = 0; q < 16; q++) acc = acc * 131 + tab[q];",
                 "  return acc; }"]  # fmt: skip
        return "\n".join(lines)

    def _kind(self) -> str:
        return self.random.choice(list(NAMES))

    # -- statements

    def _statements(self, count: int, depth: int, variables: Variables) -> list[str]:
        variables, lines, start = list(variables), [], len(variables)
        for _ in range(count):
            forms = [self._declaration, self._assignment, self._table]
            if depth:
                forms += [self._branch, self._switch] + [self._loop] * (self.loops < 2)
            lines += self.random.choice(forms)(depth, variables)
        for name, kind in variables[start:]:
            seen = f"bits_{kind}({name})" if is_float(kind) else f"(unsigned long long){name}"
            lines.append(f"acc = acc * 31 + {seen};")
        return lines

    def _declaration(self, _: int, variables: Variables) -> list[str]:
        kind, name = self._kind(), self._name("v")
        line = f"{NAMES[kind]} {name} = {self._value(kind, 3, variables)};"
        variables.append((name, kind))
        return [line]

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def _assignment(self, _: int, variables: Variables) -> list[str]:
        mine = [pair for pair in variables if pair[0][0] == "v"] or [("acc", "u64")]
        name, kind = self.random.choice(mine)
        return [f"{name} = {self._value(kind, 3, variables)};"]

    def _table(self, _: int, variables: Variables) -> list[str]:
        there, where = (self._value("u32", 1, variables) for _ in range(2))
        value = self._value("u64", 2, variables)
        return [f"tab[({there}) & 15u] ^= {value}; acc += tab[({where}) & 15u];"]

    def _branch(self, depth: int, variables: Variables) -> list[str]:
        lines = [f"if {self._condition(2, variables)} {{"]
        lines += self._statements(2, depth - 1, variables)
        if self.random.random() < 0.5:
            lines += ["} else {", *self._statements(2, depth - 1, variables)]
        return [*lines, "}"]

    def _loop(self, depth: int, variables: Variables) -> list[str]:
        """At most 13 rounds, though what bounds them may change on the way."""
        self.loops += 1
        name, bound = self._name("i"), self._value("u32", 1, variables)
        lines = [f"for (unsigned {name} = 0; {name} < ({bound} & 7u) + 1u; {name}++) {{",
                 f"if ({name} > 12u) break;"]  # fmt: skip
        inner = [*variables, (name, "u32")]
        lines += self._statements(2, depth - 1, inner)
        if self.random.random() < 0.4:
            way = self.random.choice(("break", "continue"))
            lines.append(f"if {self._condition(1, inner)} {way};")
        self.loops -= 1
        return [*lines, "}"]

    def _switch(self, depth: int, variables: Variables) -> list[str]:
        lines = [f"switch (({self._value('u32', 2, variables)}) % 9u) {{"]
        for case in self.random.sample(range(9), self.random.randrange(2, 8)):
            end = "} break;" if self.random.random() < 0.7 else "}"
            lines += [f"case {case}: {{", *self._statements(1, depth - 1, variables), end]
        return [*lines, "default: acc += 3; }"]

    # -- values

    def _condition(self, depth: int, variables: Variables) -> str:
        kind, sign = self._kind(), self.random.choice(("<", "<=", "==", "!=", ">", ">="))
        a, b = (self._value(kind, depth, variables) for _ in range(2))
        return f"({a} {sign} {b})"

    def _value(self, kind: str, depth: int, variables: Variables) -> str:
        if depth <= 0 or self.random.random() < 0.15:
            return self._leaf(kind, variables)
        form = self.random.random()
        if form < 0.1:
            return self._cast(kind, self._kind(), depth, variables)
        if form < 0.18:
            a, b = (self._value(kind, depth - 1, variables) for _ in range(2))
            return f"({self._condition(depth - 1, variables)} ? {a} : {b})"
        if form < 0.24 and self.functions:
            name, result, kinds = self.random.choice(self.functions)
            given = ", ".join(self._value(each, depth - 2, variables) for each in kinds)
            return self._converted(kind, result, f"{name}({given})")
        a, b = (self._value(kind, depth - 1, variables) for _ in range(2))
        return self._real(kind, a, b) if is_float(kind) else self._integer(kind, a, b, variables)

    def _leaf(self, kind: str, variables: Variables) -> str:
        mine = [name for name, other in variables if other == kind]
        if mine and self.random.random() < 0.8:
            return self.random.choice(mine)
        if is_float(kind):
            return self.random.choice(_REALS) + "f" * (kind == "f32")
        return f"({NAMES[kind]}){self.random.choice(_NUMBERS)}u{'ll' * ('64' in kind)}"

    def _cast(self, kind: str, source: str, depth: int, variables: Variables) -> str:
        return self._converted(kind, source, self._value(source, depth - 1, variables))

    def _converted(self, kind: str, source: str, value: str) -> str:
        if is_float(source) and not is_float(kind):
            return f"whole_{kind}({value})"
        return f"(({NAMES[kind]}){value})"

    def _real(self, kind: str, a: str, b: str) -> str:
        if self.random.random() < 0.8:
            return f"({a} {self.random.choice('+-*/')} {b})"
        letter = "f" * (kind == "f32")
        if self.random.random() < 0.5:
            return f"fabs{letter}({a})"
        return f"sqrt{letter}(fabs{letter}({a}))"

    def _integer(self, kind: str, a: str, b: str, variables: Variables) -> str:
        name, bits = NAMES[kind], int(kind[1:])
        wide = "unsigned long long" if bits == 64 else "unsigned"  # which wraps
        sign = self.random.choice(_OPERATIONS)
        if sign in ("+", "-", "*"):
            return f"(({name})(({wide}){a} {sign} ({wide}){b}))"
        if sign in ("<<", ">>"):
            first = f"({wide}){a}" if sign == "<<" else a
            return f"(({name})({first} {sign} ({self._leaf('u32', variables)} & {bits - 1})))"
        if sign in ("/", "%"):
            return f"{'quotient' if sign == '/' else 'rest'}_{kind}({a}, {b})"
        if sign in ("~", "!"):
            return f"(({name}){sign}{a})"
        if sign == "rotate":
            left, own = self.random.randrange(1, bits), NAMES[f"u{bits}"]
            return f"(({name})((({own}){a} << {left}) | (({own}){a} >> {bits - left})))"
        return f"(({name})({a} {sign} {b}))"
