"""Index rules are proved: template rules for all integers, the others expression by expression."""

import itertools
import random

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.evaluate import evaluate
from treadle.ir.interval import bounds
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.remembered import remembered
from treadle.ir.rules.index import INDEX_RULES, SIMPLER, simplified_sum, simplify
from treadle.ir.symbolic import Variable

z3 = pytest.importorskip("z3")


def to_z3(node, known):
    """A Node over index and bool as a Z3 term; // and % with a positive divisor floor in both."""
    if node in known:
        return known[node]
    a = [to_z3(s, known) for s in node.src]
    if node.op is Op.CONST:
        return z3.BoolVal(node.arg) if node.dtype.is_bool else z3.IntVal(node.arg)
    table = {
        Op.ADD: lambda: a[0] + a[1], Op.MUL: lambda: a[0] * a[1],
        Op.IDIV: lambda: a[0] / a[1], Op.MOD: lambda: a[0] % a[1],
        Op.CMPLT: lambda: a[0] < a[1], Op.CMPEQ: lambda: a[0] == a[1],
        Op.CMPNE: lambda: a[0] != a[1], Op.WHERE: lambda: z3.If(a[0], a[1], a[2]),
        Op.MAX: lambda: z3.If(a[0] > a[1], a[0], a[1]),
        Op.MIN: lambda: z3.If(a[0] < a[1], a[0], a[1]),
        Op.AND: lambda: z3.And(a[0], a[1]), Op.OR: lambda: z3.Or(a[0], a[1]),
        Op.XOR: lambda: z3.Xor(a[0], a[1]),
    }  # fmt: skip
    return table[node.op]()


def assert_proved(claim, given):
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*given, z3.Not(claim))
    assert solver.check() == z3.unsat


TEMPLATES = [rule for rule in INDEX_RULES if isinstance(rule.result, Node)]
# A remainder by a symbolic multiple is beyond Z3: proved for all x at each pair of divisors.
NONLINEAR = {"mod-mod": 24}


@pytest.mark.parametrize("rule", TEMPLATES, ids=lambda rule: rule.name)
def test_a_template_rule_holds_for_all_integers(rule):
    wild = {n for n in rule.pattern.toposort() if n.op is Op.WILDCARD}
    known = {n: z3.Bool(n.arg[0]) if n.dtype.is_bool else z3.Int(n.arg[0]) for n in wild}
    given = [to_z3(rule.when, known)] if rule.when is not None else []
    # Z3's division by a negative number rounds otherwise, so divisors are positive here; the
    # rules for constants demand that themselves, those for terms are only used on sizes.
    for node in rule.pattern.toposort():
        if node.op in (Op.IDIV, Op.MOD):
            given.append(to_z3(node.src[1], known) > 0)
    claim = to_z3(rule.pattern, known) == to_z3(rule.result, known)
    if rule.name not in NONLINEAR:
        assert_proved(claim, given)
        return
    names = [n for n in wild if n.arg[1]]
    for values in itertools.product(range(1, NONLINEAR[rule.name]), repeat=len(names)):
        pairs = [(known[n], z3.IntVal(v)) for n, v in zip(names, values, strict=True)]
        fixed = [z3.simplify(z3.substitute(g, *pairs)) for g in given]
        if not any(z3.is_false(g) for g in fixed):
            assert_proved(z3.substitute(claim, *pairs), fixed)


def random_index(rng, loops, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*loops, Node.index(rng.randrange(-8, 40))])
    a = random_index(rng, loops, depth - 1)
    kind = rng.choice(["add", "add", "mul", "div", "mod", "max", "where"])
    if kind == "add":
        return a + random_index(rng, loops, depth - 1)
    if kind == "max":
        return a.maximum(random_index(rng, loops, depth - 1))
    if kind == "where":
        return (a < rng.randrange(1, 30)).where(a, random_index(rng, loops, depth - 1))
    constant = rng.choice([2, 3, 4, 8, 12, 16, 32])
    return {"mul": a * constant, "div": a // constant, "mod": a % constant}[kind]


@pytest.mark.parametrize("seed", range(150))
def test_simplifying_a_random_index_expression_keeps_its_value_everywhere(seed):
    rng = random.Random(seed)
    sizes = [rng.choice([1, 2, 3, 4, 7, 8, 12, 16]) for _ in range(3)]
    loops = [Node.range(size, number) for number, size in enumerate(sizes)]
    expression = random_index(rng, loops, 4)
    grid = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")
    values = dict(zip(loops, grid, strict=True))
    before = np.broadcast_to(evaluate(expression, values), grid[0].shape)
    simpler = simplify(expression)
    after = np.broadcast_to(evaluate(simpler, values), grid[0].shape)
    np.testing.assert_array_equal(after, before)
    low, high = bounds(simpler)
    assert low <= before.min()
    assert before.max() <= high


@pytest.mark.parametrize("seed", range(100))
def test_a_sum_of_simplified_terms_is_the_simplified_sum(seed):
    rng = random.Random(seed)
    sizes = [rng.choice([2, 3, 4, 8, 12]) for _ in range(2)]
    loops = [Node.range(size, number) for number, size in enumerate(sizes)]
    terms = [random_index(rng, loops, 2) for _ in range(2)]
    flat, divisor = loops[0] * sizes[1] + loops[1], rng.choice([2, 3, 4])
    terms += [flat // divisor * divisor, flat % divisor]  # which belong together
    factors = [rng.choice([-2, -1, 1, 1, 3]) for _ in terms]
    with remembered():
        parts = [(simplify(term), factor) for term, factor in zip(terms, factors, strict=True)]
        found = simplified_sum(parts, 5)
        assert simplify(found) is found
    whole = sum((term * factor for term, factor in zip(terms, factors, strict=True)), Node.index(5))
    assert found is simplify(whole)


def random_symbolic_index(rng, loops, sizes, depth):
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*loops, *loops, *sizes, Node.index(rng.randrange(0, 9))])
    a = random_symbolic_index(rng, loops, sizes, depth - 1)
    kind = rng.choice(["add", "add", "add", "mul", "times", "div", "mod", "digits"])
    if kind == "add":
        return a + random_symbolic_index(rng, loops, sizes, depth - 1)
    size = rng.choice([*sizes, sizes[0] * sizes[1], sizes[0] * 4, sizes[1] + 1])
    if kind == "digits":  # which make one number again
        return (a // size * size + a % size) * rng.choice([1, 3])
    if kind == "times":
        return a * rng.choice([2, 3, 4, 8])
    return {"mul": a * size, "div": a // size, "mod": a % size}[kind]


@pytest.mark.parametrize("seed", range(300))
def test_simplifying_an_index_of_symbolic_sizes_keeps_its_value_for_all_of_them(seed):
    rng = random.Random(seed)
    m, n = sizes = Variable("m", 1, 9), Variable("n", 1, 9)
    loops = [Node.range(simplify(size), i) for i, size in enumerate((m, n, m * n, n * 4))]
    expression = random_symbolic_index(rng, loops, sizes, 5)
    simpler = simplify(expression)
    for m_size, n_size in ((1, 1), (1, 5), (4, 1), (2, 3), (5, 4), (4, 9)):
        extents = (m_size, n_size, m_size * n_size, n_size * 4)
        grid = np.meshgrid(*map(np.arange, extents), indexing="ij")
        values = dict(zip(loops, grid, strict=True)) | {m: m_size, n: n_size}
        before, after = evaluate(expression, values), evaluate(simpler, values)
        np.testing.assert_array_equal(
            np.broadcast_to(after, grid[0].shape), np.broadcast_to(before, grid[0].shape)
        )


def test_digits_of_symbolic_sizes_are_the_loops_themselves():
    m, n = Variable("m", 2, 64), Variable("n", 2, 64)
    i, j, k, flat = map(Node.range, (m, n, 8, simplify(n * m)), range(4))
    assert simplify((i * n + j) // n) is i
    assert simplify((i * n + j) % n) is j
    assert simplify((i * (n * 8) + j * 8 + k) // (n * 8)) is i
    assert simplify((i * (n * 8) + j * 8 + k) % (n * 8)) is simplify(j * 8 + k)
    assert simplify((i * (n * 8) + j * 8 + k) % 8) is k
    assert simplify(flat // n * (n * 8) + flat % n * 8) is simplify(flat * 8)
    assert simplify((i * n + k) // n) is not i  # k may be n


@pytest.mark.parametrize("seed", range(25))
def test_z3_proves_what_simplify_returns_for_reshapes(seed):
    rng = random.Random(1000 + seed)
    a, b, c = (rng.choice([2, 3, 4, 8, 16]) for _ in range(3))
    i, j, k = Node.range(a, 0), Node.range(b, 1), Node.range(c, 2)
    flat = (i * b + j) * c + k
    size = rng.choice([b * c, c, 2, 3, 4 * c])
    for expression in (flat // size, flat % size, (flat // size) * size + flat % size):
        known = {i: z3.Int("i"), j: z3.Int("j"), k: z3.Int("k")}
        given = [z3.And(known[r] >= 0, known[r] < loop_size(r)) for r in (i, j, k)]
        assert_proved(to_z3(expression, known) == to_z3(simplify(expression), known), given)


def test_undoing_a_reshape_leaves_the_loops_themselves():
    i, j = Node.range(8, 0), Node.range(32, 1)
    assert simplify((i * 32 + j) // 32) is i
    assert simplify((i * 32 + j) % 32) is j
    flat = Node.range(256, 2)
    assert simplify((flat // 32) * 32 + flat % 32) is flat


def test_what_terms_share_is_not_walked_again_for_each_way_to_it():
    i, j = Node.range(8, 0), Node.range(8, 1)
    for _ in range(80):  # as trees, these have 2**80 leaves
        i = (i < j).where(j, i // 3)
        j = (i < j).where(i, j % 5)
    assert simplify(i + j) is simplify(j + i)


def test_a_node_is_simplified_once_in_a_block_that_remembers(monkeypatch):
    applied = []
    apply = INDEX_RULES.apply
    monkeypatch.setattr(INDEX_RULES, "apply", lambda n: applied.append(n) or apply(n))
    i = Node.range(64, 0)
    node = (i * 32 + Node.range(32, 1)) // 32
    with remembered():
        assert simplify(node) is i
        count = len(applied)
        with remembered():  # the same block
            assert simplify(node) is i
        assert len(applied) == count
    assert simplify(node) is i
    assert len(applied) > count


def fails_in_a_block():
    with remembered():
        simplify(Node.range(4, 0) + 1)
        assert SIMPLER.here()
        raise ZeroDivisionError


def test_a_block_that_fails_leaves_nothing_remembered():
    with pytest.raises(ZeroDivisionError):
        fails_in_a_block()
    with remembered():
        assert not SIMPLER.here()


def test_numbers_of_loops_that_became_integers_are_compared_as_before():
    i = Node.range(40, 0)
    below = Node(Op.CMPLT, dtypes.bool, (i.cast(dtypes.int32), Node.const(dtypes.int32, 17)))
    assert simplify(below) is simplify(i < 17)
    assert simplify((i // 3 < 5) & (i % 2 < 1)) is simplify((i < 15) & (i % 2 < 1))
    far = i * (1 << 28)  # which has no place in an int32
    wrapped = Node(Op.CMPLT, dtypes.bool, (far.cast(dtypes.int32), Node.const(dtypes.int32, 17)))
    assert simplify(wrapped) is wrapped
