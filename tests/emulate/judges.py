"""Where `.ci/judges` puts what others wrote."""

from pathlib import Path

import pytest

JUDGES = Path(__file__).parents[2] / ".judges"


def judge(name: str) -> Path:
    """A folder of the judges; where it is missing, the test is skipped."""
    folder = JUDGES / name
    if not folder.is_dir():
        pytest.skip(
            f"no {name}: .ci/judges fetches it (hipcc, LLVM's tests, MLX and Triton with --full)"
        )
    return folder
