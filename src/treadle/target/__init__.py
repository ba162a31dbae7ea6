"""What a device can do, as plain data: `Target`, by name, by arch string, or for this machine."""

from treadle.target.adreno import ADRENO_CHIPS, AdrenoChip, adreno_chip, adreno_target
from treadle.target.amd import AMD_CHIPS, amd_target
from treadle.target.amd_units import CDNA2, CDNA3, CDNA4, RDNA3, RDNA4
from treadle.target.apple import APPLE_FAMILIES, VARIABLES_AT, apple_target
from treadle.target.apple_units import SIMDGROUP
from treadle.target.arch import X86_CPUS, cpu_names
from treadle.target.chain import Chain, chain_of
from treadle.target.costs import CACHE_LINE, CACHE_SHARE, PAGE, PAGES, Costs, Effort
from treadle.target.data import Target, Workgroup
from treadle.target.fma_units import FEW_REGISTERS, vector_unit, work_item_unit
from treadle.target.host import available_cores, host_target, third_level_caches
from treadle.target.matrix import (
    LINE_PADDING,
    Digit,
    Fragment,
    Levels,
    MatrixLoad,
    MatrixUnit,
    Part,
    SwizzledRows,
    Tiling,
    fragment,
)
from treadle.target.nvidia import NVIDIA_ARCHITECTURES, nvidia_target
from treadle.target.nvidia_units import (
    LDMATRIX,
    MMA,
    RESERVED,
    WGMMA,
    WGMMA_ROWS,
    mma_fragments,
)
from treadle.target.parse import TARGET_NAMES, parse_target

__all__ = [
    "ADRENO_CHIPS", "AMD_CHIPS", "APPLE_FAMILIES", "CACHE_LINE", "CACHE_SHARE", "CDNA2",
    "CDNA3", "CDNA4",
    "FEW_REGISTERS", "LDMATRIX", "LINE_PADDING", "MMA", "NVIDIA_ARCHITECTURES", "PAGE", "PAGES",
    "RDNA3", "RDNA4", "RESERVED",
    "SIMDGROUP", "TARGET_NAMES", "VARIABLES_AT", "WGMMA", "WGMMA_ROWS", "X86_CPUS", "AdrenoChip",
    "Chain", "Costs", "Digit", "Effort", "Fragment", "Levels", "MatrixLoad", "MatrixUnit", "Part",
    "SwizzledRows", "Target",
    "Tiling", "Workgroup", "adreno_chip", "adreno_target", "amd_target", "apple_target",
    "available_cores", "chain_of", "cpu_names", "fragment", "host_target", "mma_fragments",
    "nvidia_target", "parse_target", "third_level_caches", "vector_unit", "work_item_unit",
]  # fmt: skip
