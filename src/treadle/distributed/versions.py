"""What all machines of a job have to have alike: `python -m treadle.distributed.versions`.

{"treadle": "1.2", "NumPy": "2.4.6", "Python": "3.11.7", "MPI": "MPICH Version: 5.0.2"}
"""

from __future__ import annotations

import json
import platform
from importlib import metadata

from .. import __version__

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """The versions of this machine. MPI's library is loaded, and not begun."""
    found = {
        "treadle": __version__,
        "NumPy": metadata.version("numpy"),
        "Python": platform.python_version(),
    }
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return {**found, "MPI": f"(none: {error})"}
    library = MPI.Get_library_version().rstrip("\0 \n").splitlines()
    return {**found, "MPI": library[0].partition(", package")[0].replace("\t", " ").strip()}


if __name__ == "__main__":
    print(json.dumps(versions()))
