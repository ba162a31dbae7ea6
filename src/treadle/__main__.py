"""`python -m treadle` is the `treadle` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
