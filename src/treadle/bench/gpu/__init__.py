"""All that is to be seen on a machine with an NVIDIA or an AMD GPU, in one call of ten minutes.

    python -m treadle.bench.gpu                    # in a checkout: the tests are a part of it
    python -m treadle.bench.gpu --record FILE      # and what it returned, for tests/golden
    python -m treadle.bench.gpu --emulate          # a dry run: small sizes on the emulated GPU

Each part is a process with a time of its own (`parts`), so that a context that a fault has broken,
or a kernel that hangs, costs no other part. What a part finds it writes down at once
(`findings`), so that what was found before the time was over is kept. Exit status 0: all passed.
"""
