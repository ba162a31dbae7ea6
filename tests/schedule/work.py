"""How much work something is, without a clock."""

import sys

BAR = 12  # times the work for ten times as many assignments


def work(run):
    """How many lines of Python `run` takes."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
