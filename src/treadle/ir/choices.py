"""The choices that scheduling, optimising, lowering and running make, by name, and their record.

    take("partial_sums")               where the choice is made; nothing happens if nobody asks
    with choices_of() as found: ...    found == {"register_tile", "partial_sums"}
    with observing() as seen: ...      seen.kernels: a set of names for each kernel that has run

Every fast path, fusion and recogniser has a row in CHOICES: what it does, in one sentence. Tests
see to it that programs reach each of them, and which of them meet. The names are the field's words,
and stay when the code behind one is written anew.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = [
    "CHOICES", "Choice", "Observed", "choices_of", "choosing", "forget_choices", "is_observed",
    "note_kernel", "observing", "take",
]  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """`stage` is the package that makes it, `meaning` what it does."""

    stage: str
    meaning: str


def _stage(stage: str, **rows: str) -> dict[str, Choice]:
    return {name: Choice(stage, meaning) for name, meaning in rows.items()}


CHOICES: dict[str, Choice] = {
    **_stage(
        "schedule",
        reduction_epilogue="What follows a reduction element by element is in its kernel.",
        row_statistic="A reduction over rows is computed in the kernel that uses it for each row.",
        nested_reduction="A reduction is computed inside the loops of another one.",
        local_intermediates="A kernel keeps rows between two products in memory of each worker.",
        multi_output="Kernels that keep the same rows are one, with a result each.",
        stored_statistic="A kernel stores a row's statistic for others that read it.",
        merged_kernels="Kernels over the same loops are one that stores several results.",
        fuse_producer="A product is computed in the one kernel that reads it.",
        channels_last="Images between convolutions are stored with their channels innermost.",
        narrow_partial_sums="Results of chains are stored as narrow as their sum is rounded.",
        columns_last="A chain of products is stored with columns innermost, then turned.",
        spread_windows="Windows that reach few places of an axis are summed close together.",
        blocked_scan="A long scan is cut into blocks and a scan of their totals.",
        counting_sort="Short lines are sorted by counting how many elements come before each.",
        radix_sort="Long lines are sorted by a few bits at a time.",
        grouped_top_k="Of a long line only the groups with the least elements are sorted.",
        cut_to_fit="A kernel is cut since the device binds few buffers.",
        textures="Intermediate results are kept in textures.",
        stored_before_overwrite="A value is stored since what it reads is about to be overwritten.",
        copied_version="An old version of memory is copied before it is overwritten.",
        complex_to_real="Complex numbers are pairs of reals.",
    ),
    **_stage(
        "optimize",
        float64_accumulation="The sums of a variance are float64, and take one pass.",
        two_level_argmax="The place of an extreme is looked for in the block that has it.",
        pad_loops="A loop whose size is known at launch gets the largest one, under a mask.",
        trim_loops="A loop ends where launches know that its masks hide all that follows.",
        split_digits="A loop whose digits are used becomes two loops.",
        merged_loops="Neighbouring loops are one.",
        one_hot_gather="A sum of which all terms but one are 0 becomes a load.",
        hoist_masks="A mask around a product moves onto one of its factors.",
        chained_matmul="Products of products are computed in blocks of rows.",
        masked_bounds="Loops of a block of rows end where a mask hides all that follows.",
        carried_rows="Reductions of products of rows go through tiles of keys in registers.",
        fuse_reductions="Two reductions of one nest share a loop.",
        fused_reduction_output="A result is stored and reduced in one pass over memory.",
        split_reduction="A long reduction is cut into chunks that workers share.",
        texel_groups="A kernel stores whole texels of a texture.",
        workgroup_elements="Work items of a workgroup compute a few neighbouring results each.",
        workgroup_rows="A workgroup computes a row.",
        workgroup_counters="A workgroup of one work item counts by itself.",
        tree_reduction="A workgroup combines the parts of a reduction in a tree.",
        subgroup_reduction="A workgroup combines the parts of a reduction by subgroup operations.",
        cached_rows="A costly row is computed once and kept in the cache.",
        cached_gathered_rows="A row that is gathered several times is kept in the cache.",
        row_pipelining="One loop reads a row, computes the next and stores a third.",
        register_tile="Results that share operands are computed in tiles of registers.",
        grouped_tile="Several reductions of the same rows and columns are in one tile.",
        swapped_tile="Rows and columns of a tile change places.",
        packed_columns="The columns of tiles are packed panel by panel, for each worker.",
        packed_columns_for_all="The columns of tiles are packed once for all workers.",
        packed_rows="The rows of tiles are packed once for all workers.",
        striped_packing="Rows that lie across the steps are packed for eight steps at a time.",
        window_image="Rows that are windows are read from one copy of their image.",
        uniform_padding="All rows of a tile have the same steps, so that all others are skipped.",
        zero_steps="A tile goes without the steps that change nothing for all of its rows.",
        skip_padding="A tile goes without the steps of a window that are in the padding.",
        k_tiling="Workgroups go through the steps of a reduction in slices.",
        shared_tiles="Workgroups keep slices of both operands in shared memory.",
        matrix_units="Products are made by the matrix units of subgroups.",
        warpgroup_units="Products are made by the matrix units of warpgroups.",
        bulk_copies="The copy engine fills shared memory with slices of a product's factors.",
        transposed_operand="A factor is transposed in memory by a phase before the product.",
        interleaved_results="A few results side by side are a vector each.",
        square_transpose="Transposed memory is read and written in squares.",
        column_reduction="Sums down columns add several rows at a time to a row of totals.",
        column_strips="Columns are taken in strips whose totals fit the first-level cache.",
        row_scan="A scan down columns takes several rows at a time.",
        lane_scan="A scan along rows runs in the lanes of vectors.",
        scatter_strips="Each worker of a scatter takes a strip of neighbouring columns.",
        parallel_scans="Several sequences run side by side in one worker.",
        lane_results="Neighbouring results are the lanes of vectors.",
        lane_reduction="The steps of a reduction are the lanes of vectors, in several copies.",
        unrolled_reduction="A short reduction is written out.",
        remainder_loop="What fills no whole vectors at the end of a row is a loop of its own.",
        split_concat="The pieces of a loop that masks divide are computed side by side.",
        split_concat_rows="Rows of the pieces of a loop that masks divide are side by side.",
        dual_streams="A reduction reads long rows at two places at a time.",
    ),
    **_stage(
        "lower",
        bulk_copy_producer="One more work item asks for bulk copies and meets others at mbarriers.",
        multi_buffering="The next slices are on their way while work items use one.",
        asynchronous_copies="Slices arrive by asynchronous copies of 16 bytes.",
        swizzled_tiles="Lines in shared memory are swizzled against bank conflicts.",
        strided_lanes="Lanes a few elements apart are masked whole vectors, shuffled.",
        whole_steps="The last step of a loop, which alone is masked, stands behind it.",
        row_segments="A vector that crosses the ends of rows is a masked load for each row.",
        register_transpose="Blocks of vectors are turned in registers.",
        transposed_stores="Rows of a tile are turned in registers before they are stored.",
        interleaved_stores="Vectors are woven together before they are stored.",
        shared_loops="Reductions, or a reduction and stores, run in one loop.",
        continued_sums="A sum goes on in the register of the sum that it is added to.",
        tuple_registers="A tuple is reduced in a register for each of its items.",
        vector_scan="A running total in the lanes of vectors takes the logarithm of their number.",
        float64_scan="A running total of float32 is kept in float64.",
        emulated_floats="Narrow floats are integers in memory, and float32 to compute with.",
        padded_rows="An address is chosen once for a row: of memory, or of zeros.",
        explicit_rounding="Rounding is said where a compiler would drop it.",
        scale_by_power="A product with a power of two is one instruction.",
        dynamic_shared="A kernel asks for shared memory when it is launched.",
        nontemporal_stores="Large results are stored around the caches.",
        prefetch_panels="Hints fetch the next packed panel of a matrix.",
        prefetch_packing="Hints fetch what a worker packs next.",
        prefetch_rows="Hints fetch the next row while this one is computed.",
        prefetch_rows_ahead="Hints fetch rows that go on elsewhere than where the last one ended.",
        prefetch_streams="Hints fetch what a loop reads later.",
        prefetch_totals="Hints fetch the rows that totals of columns read next.",
        partial_sums="A long sum of float32 is added up in parts.",
    ),
    **_stage(
        "engine",
        prepacked="What lasts from call to call is packed once, and kept.",
        packed_by_first_round="What no step of a loop changes is packed by its first one.",
        native_replay="A captured call is replayed by one native list of launches.",
        fast_replay="A replay asks nothing that cannot have changed since the last one.",
        sink_into_loop="A product of all rows of a sequence is computed in the steps of a loop.",
        rotating_states="States that nobody reads take two rows of memory in turn.",
        shared_loop="Loops that compute the same states run as one.",
    ),
}

_taken: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar(
    "treadle_choices", default=None
)


def take(name: str) -> None:
    """Record that the choice `name` was made. Raises KeyError if there is none of that name."""
    found = _taken.get()
    if found is not None:
        found.add(CHOICES[name] and name)


def forget_choices() -> None:
    """Others are going to be made in place of those of the block around."""
    found = _taken.get()
    if found is not None:
        found.clear()


@contextlib.contextmanager
def choices_of() -> Iterator[set[str]]:
    """A block whose choices are in the set that it gives."""
    found: set[str] = set()
    token = _taken.set(found)
    try:
        yield found
    finally:
        _taken.reset(token)


@dataclass
class Observed:
    """The choices of each kernel that ran, with those of the call around it, and how often."""

    kernels: Counter[frozenset[str]] = field(default_factory=Counter)

    def reached(self) -> set[str]:
        """The choices that some kernel was made by."""
        return set().union(*self.kernels)

    def pairs(self) -> set[tuple[str, str]]:
        """The choices that met in one kernel, by name in alphabetical order."""
        return {(a, b) for names in self.kernels for a in names for b in names if a < b}


_observed: contextvars.ContextVar[Observed | None] = contextvars.ContextVar(
    "treadle_observed", default=None
)


_around: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "treadle_choices_around", default=frozenset()
)


@contextlib.contextmanager
def observing() -> Iterator[Observed]:
    """A block that is told of every kernel that runs, or is made part of a replay, inside."""
    observed = Observed()
    token = _observed.set(observed)
    try:
        yield observed
    finally:
        _observed.reset(token)


def is_observed() -> bool:
    """Whether anybody wants to know."""
    return _observed.get() is not None


@contextlib.contextmanager
def choosing(*names: str) -> Iterator[None]:
    """A block that runs kernels by the choices `names`, beside their own."""
    token = _around.set(_around.get() | {name for name in names if CHOICES[name]})
    try:
        yield
    finally:
        _around.reset(token)


def note_kernel(choices: Iterable[str]) -> None:
    """Tell who observes of a kernel that was made by `choices`."""
    observed = _observed.get()
    if observed is not None:
        observed.kernels[_around.get().union(choices)] += 1
