"""What a stream says of itself, gathered over all of its pictures without decoding one.

info = stream_info(open("clip.hevc", "rb"))
info.pictures, info.sequences[0].sequence.width
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from .annexb import Source, nal_unit_type_name
from .errors import BitstreamError
from .stream import AccessUnit, SequenceInfo, access_units

__all__ = ["SequenceSummary", "StreamInfo", "stream_info"]


@dataclass
class SequenceSummary:
    """The pictures that share one description, wherever they are in the stream.

    `types` counts pictures by the letters I, P and B; `nbytes` are their units without start codes.
    """

    sequence: SequenceInfo
    pictures: int = 0
    shown: int = 0
    keyframes: int = 0
    nbytes: int = 0
    types: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> Fraction | None:
        """How long the shown pictures last, where the stream says how fast they follow."""
        rate = self.sequence.frame_rate
        return self.shown / rate if rate else None

    def add(self, picture: AccessUnit) -> None:
        """Count one more picture."""
        self.pictures += 1
        self.shown += picture.shown
        self.keyframes += picture.keyframe
        self.types[picture.type.name] += 1
        for unit in picture.units:
            self.nbytes += len(unit.data)


@dataclass
class StreamInfo:
    """A stream: what its sequences say, in the order in which they come, and its units by name."""

    sequences: list[SequenceSummary]
    units: Counter[str]

    @property
    def pictures(self) -> int:
        """All pictures, shown or not."""
        return sum(summary.pictures for summary in self.sequences)


def stream_info(source: Source) -> StreamInfo:
    """Reads all of `source`, anything that `iter_annexb_nalus` takes.

    Raises BitstreamError for what breaks the standard, and where there is no picture.
    """
    summaries: dict[SequenceInfo, SequenceSummary] = {}
    units: Counter[int] = Counter()
    current: SequenceSummary | None = None
    for picture in access_units(source):
        said = picture.sequence
        if current is None or current.sequence is not said:
            current = summaries.setdefault(said, SequenceSummary(said))
        current.add(picture)
        for unit in picture.units:
            units[unit.data[0] >> 1 & 0x3F] += 1
    if current is None:
        raise BitstreamError("the stream has no picture", offset=0)
    names = Counter({nal_unit_type_name(kind): units[kind] for kind in sorted(units)})
    return StreamInfo(list(summaries.values()), names)
