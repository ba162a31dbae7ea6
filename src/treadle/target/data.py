"""`Target`: the facts about one processor that code generation and scheduling ask for.

    parse_target("x86_64,znver2,avx2").vector_bytes          -> 32
    parse_target("x86-64-v4").lanes(dtypes.float32)           -> 16

A Target holds no handle and opens nothing, so code for any of them can be made on any machine.
One surprise: `dtypes` are the types with native arithmetic; every storage type can be loaded,
stored and converted on every CPU target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.dtype import dtypes
from treadle.target.costs import Costs, costs_of

if TYPE_CHECKING:
    from treadle.dtype import DType
    from treadle.target.matrix import MatrixUnit

__all__ = ["Target", "Workgroup"]


@dataclass(frozen=True)
class Workgroup:
    """How a processor that runs workgroups likes them.

    `work_items` is the size of workgroup to aim at, `most_work_items` the largest one allowed,
    `shared_bytes` the most memory that the work items of one workgroup share. Of that a kernel
    declares `declared_bytes` at most, and asks at its launch if it needs more (None: it declares
    all). `subgroup` holds the least and the most work items that run in step and combine values
    without memory (warps, waves, SIMD groups); None where the language offers no such operations.
    In a matmul a work item computes at most `tile` rows by `tile` columns, of which `together` are
    neighbours: so many shared elements are one load. Smaller tiles follow until there are `busy`
    workgroups, which is what keeps all of the processor at work. If `each` is set a work item
    computes so many rows and columns. Slices of the sum have at most `depth` steps. `copies_ahead`:
    work items copy into shared memory asynchronously.
    """

    work_items: int = 128
    most_work_items: int = 256
    shared_bytes: int = 16 << 10
    subgroup: tuple[int, int] | None = None
    tile: int = 4
    together: int = 1
    busy: int = 1
    declared_bytes: int | None = None
    each: tuple[int, int] | None = None
    depth: int = 16
    copies_ahead: bool = False


@dataclass(frozen=True)
class Target:
    """One processor. Sizes are in bytes; caches are those that one core can reach.

    `triple`, `cpu` and `features` ("+avx2,-avx512f") are LLVM's and clang's spellings. `l1` and
    `l2` belong to one core, `l3` is shared.

    Elements of `least_shuffled` bytes or more can be moved anywhere in a vector by one instruction;
    `has_scale` says that one multiplies whole vectors by powers of two that other vectors hold,
    `has_fma` that one multiplies and adds; without it a product needs a register until it is added.
    `halves_vectors`: the widest vectors are computed in two halves, so half a vector takes half of
    the time.

    `workgroup` is None where workers take slices of a grid, as on a CPU. `max_buffers` is how many
    pieces of memory one phase of a kernel can have (None: any number), `max_binding` how many
    bytes it can see of one at a time, `index_bits` the widest integer for addresses,
    `short_indices` whether 32 bits are quicker where they suffice, `max_lanes` the most lanes that
    its language gives a vector, `max_image` the height and width of the largest texture (None:
    there are none), `max_steps` how many steps all loops of one work item may take in all (None:
    any number): a driver may end them there without a word. Without `strict_floats` the target's
    compiler takes floats for real numbers where that saves it work. `emulates_float64` says that
    float64, which is not among `dtypes`, is computed in integers, one number at a time.
    `chooses_addresses`: one address may be memory of a kernel's arguments or constants, as it turns
    out. `matrix_units` are what multiplies small matrices, for each dtype at most one,
    `warpgroup_units` those that take both from shared memory, for four subgroups at a time.
    `rounding_units` and `rounding_warpgroup_units` likewise round the factors, which is not done
    unless the user allows it.
    """

    name: str
    arch: str
    triple: str
    cpu: str
    features: str
    dtypes: tuple[DType, ...]
    vector_bytes: int
    vector_registers: int
    has_half_convert: bool
    has_masked_memory: bool
    least_shuffled: int = 4
    has_scale: bool = False
    has_fma: bool = True
    halves_vectors: bool = False
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    cores: int = 1
    workgroup: Workgroup | None = None
    max_buffers: int | None = None
    max_binding: int | None = None
    index_bits: int = 64
    short_indices: bool = False
    max_lanes: int = 64
    max_steps: int | None = None
    max_image: tuple[int, int] | None = None
    strict_floats: bool = True
    emulates_float64: bool = False
    chooses_addresses: bool = False
    matrix_units: tuple[MatrixUnit, ...] = ()
    warpgroup_units: tuple[MatrixUnit, ...] = ()
    rounding_units: tuple[MatrixUnit, ...] = ()
    rounding_warpgroup_units: tuple[MatrixUnit, ...] = ()

    def lanes(self, dtype: DType) -> int:
        """How many elements of `dtype` one vector register holds, at least 1."""
        return max(1, self.vector_bytes // dtype.scalar.itemsize)

    def shuffled_bytes(self, dtype: DType) -> int:
        """How many bytes of `dtype`'s elements one instruction moves anywhere; 0 if but few."""
        return self.vector_bytes if dtype.scalar.itemsize >= self.least_shuffled else 0

    def supports(self, dtype: DType) -> bool:
        """True if kernels may hold `dtype`, emulated if need be: only float64 can be missing."""
        return dtype.scalar.name != "float64" or self.emulates_float64 or self.is_native(dtype)

    def is_native(self, dtype: DType) -> bool:
        """True if the processor computes in `dtype` itself, without widening it."""
        return dtype.scalar in self.dtypes

    def dtype_of_total(self, dtype: DType) -> DType:
        """What sums of `dtype` that must not round on the way are kept in.

        float64 for float32, on processors: GPUs have few units for it, or none.
        """
        is_wide = dtype.scalar is dtypes.float32 and self.is_native(dtypes.float64)
        return dtypes.float64 if is_wide and self.workgroup is None else dtype

    @property
    def costs(self) -> Costs:
        """What the steps of a kernel cost here, to rank schedules by."""
        return costs_of(self.vector_bytes)

    @property
    def code_key(self) -> str:
        """What compiled code depends on: two targets with one key use each other's code."""
        limits = (
            self.workgroup,
            self.max_buffers,
            self.max_binding,
            self.index_bits,
            self.short_indices,
            self.max_steps,
            self.l1,
            self.l2,
            self.l3,
        )
        return f"{self.triple}|{self.cpu}|{self.features}|{self.max_lanes}|{limits}"
