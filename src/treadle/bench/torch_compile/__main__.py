"""python -m treadle.bench.torch_compile: the command."""

from __future__ import annotations

import argparse
import sys
import warnings

from ...errors import UserError
from . import MODES, SIDES, measured, table


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m treadle.bench.torch_compile",
        description="Times models through torch.compile beside PyTorch's own ways.",
    )
    parser.add_argument("words", nargs="*", help="only models whose name has one of these")
    parser.add_argument("--mode", choices=MODES, help="one of both")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    options = parser.parse_args(words)
    try:
        from .models import MODELS
    except ImportError as error:
        raise UserError(
            "[bench] torch.compile needs PyTorch and its models: pip install treadle[oracle,models]"
        ) from error
    warnings.filterwarnings("ignore")  # of PyTorch's compiler, and of the models' libraries
    wanted = options.words
    names = [name for name in MODELS if not wanted or any(word in name for word in wanted)]
    modes = [options.mode] if options.mode else MODES
    print(table([measured(name, mode, options.sides) for name in names for mode in modes]))


if __name__ == "__main__":
    main(sys.argv[1:])
