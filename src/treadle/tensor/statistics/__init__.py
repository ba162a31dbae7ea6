"""Medians, quantiles, differences, covariances, histograms."""

from __future__ import annotations

from .descriptive import Descriptive
from .summaries import Summaries

__all__ = ["Statistics"]


class Statistics(Descriptive, Summaries):
    """Medians, quantiles, differences, covariances, histograms."""

    __slots__ = ()
