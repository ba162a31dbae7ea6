"""Tensors over a mesh of processes on this machine: values, gradients, ways to train."""

from __future__ import annotations

import os

import pytest

from .job import NEEDS_MPI, run

FULL = "FULL_TESTS" in os.environ
pytestmark = NEEDS_MPI


def right(count: int, program: str, *arguments: str, **variables: str) -> None:
    ended = run(count, program, *arguments, **variables)
    assert ended.status == 0, ended.text
    for process in range(count):
        assert ended.lines_of(process)[-1].endswith(" right"), ended.text


@pytest.mark.parametrize("other", ["none", "0", "1"])
@pytest.mark.parametrize("axis", ["none", "0", "1"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_operations_over_a_mesh_give_what_one_device_gives(count, axis, other):
    right(count, "mesh.py", axis, other)


WAYS = ["data parallel", "tensor parallel", "fully sharded", "sequence parallel"]


@pytest.mark.parametrize("reproducible", ["0", "1"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_train_gives_the_parameters_of_one_process(way, count, reproducible):
    right(count, "mesh_training.py", way, REPRODUCIBLE=reproducible)


# Pieces of 333 numbers are no equal ones.
WIDTHS = [192, 256, 333, 768] if FULL else [192, 333]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [2, 4] if FULL else [2])
@pytest.mark.parametrize("way", WAYS)
def test_networks_of_real_widths_have_the_bits_of_one_process(way, count, width):
    right(count, "mesh_training.py", way, str(width), REPRODUCIBLE="1")


# Processes, and the first of how many seeds: each block has all kinds of networks twice.
SEEDS = [(count, first, 8) for count in (2, 3) for first in range(0, 40, 8)]


@pytest.mark.parametrize(("count", "first", "seeds"), SEEDS if FULL else [(2, 100, 2), (3, 102, 2)])
def test_networks_of_real_sizes_are_as_exact_as_in_one_process(count, first, seeds):
    right(count, "mesh_sizes.py", str(first), str(seeds))


@pytest.mark.parametrize("count", [2, 4])
def test_a_pipeline_gives_the_parameters_of_one_process(count):
    right(count, "pipeline.py")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [2, 4] if FULL else [2])
def test_a_pipeline_has_the_bits_of_one_process_that_adds_up_as_many_parts(count, width):
    right(count, "pipeline.py", str(width), REPRODUCIBLE="1")


def test_two_axes_of_parallelism_and_parts_that_are_joined():
    right(4, "two_axes.py")


@pytest.mark.parametrize("count", [2, *([3] if FULL else [])])
def test_buckets_of_gradients_do_not_depend_on_what_one_process_has_in_memory(count):
    right(count, "buckets.py")


def test_gradients_are_exchanged_while_later_kernels_of_backward_run():
    right(2, "overlap_backward.py")
