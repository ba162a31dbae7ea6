"""What a device can do, as plain data: `Target`, by name, by arch string, or for this machine."""

from treadle.target.amd_units import CDNA3, RDNA3, RDNA4
from treadle.target.apple_units import SIMDGROUP
from treadle.target.arch import X86_CPUS, cpu_names
from treadle.target.data import Target, Workgroup
from treadle.target.host import available_cores, host_target
from treadle.target.matrix import (
    Digit,
    Fragment,
    MatrixLoad,
    MatrixUnit,
    Part,
    SwizzledRows,
    fragment,
)
from treadle.target.nvidia import NVIDIA_ARCHITECTURES, nvidia_target
from treadle.target.nvidia_units import LDMATRIX, MMA, WGMMA, WGMMA_ROWS, mma_fragments
from treadle.target.parse import TARGET_NAMES, parse_target

__all__ = [
    "CDNA3", "LDMATRIX", "MMA", "NVIDIA_ARCHITECTURES", "RDNA3", "RDNA4", "SIMDGROUP",
    "TARGET_NAMES", "WGMMA", "WGMMA_ROWS", "X86_CPUS", "Digit", "Fragment", "MatrixLoad",
    "MatrixUnit", "Part", "SwizzledRows", "Target", "Workgroup", "available_cores", "cpu_names",
    "fragment", "host_target", "mma_fragments", "nvidia_target", "parse_target",
]  # fmt: skip
