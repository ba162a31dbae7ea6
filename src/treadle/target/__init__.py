"""What a device can do, as plain data: `Target`, by name, by arch string, or for this machine."""

from treadle.target.arch import X86_CPUS, cpu_names
from treadle.target.data import MatrixUnit, Target, Workgroup
from treadle.target.host import available_cores, host_target
from treadle.target.nvidia import NVIDIA_ARCHITECTURES, nvidia_target
from treadle.target.parse import TARGET_NAMES, parse_target

__all__ = [
    "NVIDIA_ARCHITECTURES",
    "TARGET_NAMES",
    "X86_CPUS",
    "MatrixUnit",
    "Target",
    "Workgroup",
    "available_cores",
    "cpu_names",
    "host_target",
    "nvidia_target",
    "parse_target",
]
