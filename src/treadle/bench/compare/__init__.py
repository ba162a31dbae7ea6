"""Whether one checkout of treadle is slower than another, row by row of `treadle bench`.

    python -m treadle.bench.compare OLD NEW --only matmul,conv

Each checkout has a process of its own, and both measure a row in turns, in pairs whose order
alternates: what else the machine does hits both. A ratio is NEW's speed over OLD's. Of the ratios
of a run's pairs the median counts, with bounds that it lies within, whatever the times are spread
like. A row falls short only where even the upper bound is below the limit, in two of three runs,
each with processes of its own: noise alone hardly ever does that, and a real loss always does once
there are pairs enough.
"""
