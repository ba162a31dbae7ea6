"""Deciding about a node is a value; drafts of kernels are revised until nothing is against one."""

from __future__ import annotations

import copy

import numpy as np

from treadle import Tensor
from treadle.engine.realized import current
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.draft import Draft
from treadle.schedule.fuse import decide
from treadle.schedule.local_intermediates import EVERYWHERE
from treadle.schedule.plan import Decision, Demand, Group, weigh
from treadle.schedule.reasons import decision_on
from treadle.schedule.revisions import bind_fewer_buffers, join_kernels, order_writes
from treadle.target import parse_target


def _filled(*shape):
    return Tensor(np.ones(shape, np.float32)).realize()


def _graph(*tensors):
    roots, _ = current(t.node for t in tensors)
    return list(roots)


def _row_sum():
    """A sum over rows, a kernel over those rows, and what it wants of the sum."""
    (root,) = _graph(_filled(64, 32).sum(1, keepdim=True) * _filled(64, 32))
    order = root.toposort()
    total = next(node for node in order if node.op is Op.REDUCE)
    group = Group((), root=root)
    group.ranges = tuple(group.fresh_range(size) for size in root.shape)
    return total, weigh(order), Demand(group, (group.ranges[0], Node.index(0)), group)


def test_deciding_changes_neither_the_kernel_nor_the_next_decision():
    total, weights, demand = _row_sum()
    before = copy.copy(vars(demand.group))
    first, second = (decision_on(total, [demand], weights) for _ in range(2))
    assert vars(demand.group) == before
    assert (first.is_stored, first.reason) == (second.is_stored, second.reason)
    assert not first.is_stored


def test_a_product_in_the_same_loops_decides_about_the_next_reduction():
    total, weights, demand = _row_sum()
    demand.group.heavy = True
    decision = decision_on(total, [demand], weights)
    assert decision.is_stored
    assert "matmul-like" in decision.reason


def test_kernels_know_the_rows_of_their_reductions():
    nodes = _graph(_filled(64, 32).sum(1, keepdim=True) * _filled(64, 32))
    (group,) = decide(nodes, {}).kernels
    assert not group.heavy
    assert group.row_stats == [frozenset(group.ranges[:1])]


def test_each_node_of_a_graph_has_a_decision_with_a_reason():
    nodes = _graph((_filled(64, 128) @ _filled(128, 96)) @ _filled(96, 32))
    plan = decide(nodes, {})
    assert all(isinstance(plan.decisions[node], Decision) for node in plan.groups)
    assert all(decision.reason for decision in plan.decisions.values())
    stored = {node for node, decision in plan.decisions.items() if decision.is_stored}
    assert stored == plan.groups.keys()
    assert [node for node in stored if plan.decisions[node].is_output] == nodes


def test_a_draft_is_a_value():
    nodes = _graph(_filled(8, 8).exp().sum(1).exp())
    draft = Draft(nodes, "CPU", None, EVERYWHERE)
    (value,) = (node for node in nodes[0].toposort() if node.op is Op.REDUCE)
    asked = draft.storing({value: "a test asks for it"})
    assert len(draft.built) == 1
    assert len(asked.built) == 2
    assert asked.built[value][0].reason == "a test asks for it"
    assert draft.asked == {}
    assert asked.of(nodes).asked == {}


def test_a_revision_leaves_a_draft_that_it_has_nothing_against():
    draft = Draft(_graph(_filled(8, 8) + 1), "CPU", parse_target("x86-64-v3"), EVERYWHERE)
    assert all(revise(draft) is None for revise in (join_kernels, bind_fewer_buffers, order_writes))


def test_memory_that_has_to_be_stored_before_it_is_overwritten_is_stored_already():
    """A value that is asked for may be an AFTER, which is memory and starts no kernel."""
    x = Tensor(np.arange(4, dtype=np.float32)).realize()
    view = x.reshape(-1)
    view.assign(view + 1)
    x[::-1] = view
    assert x.tolist() == [4, 3, 2, 1]
