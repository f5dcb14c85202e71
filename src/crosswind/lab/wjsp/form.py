"""The form of a tuple in the processor: 152 bits (section 3.1, Figure 2).

The text gives the sum and the parts: three tuples, a routing tag, a least and a greatest timestamp; attributes have 8
bits (section 5). The instructions give the rest: a tag has 8 bits, and an attribute of a tuple is named by 2 bits, so a
tuple has four of them. What is left are 24 bits for each timestamp. The difference of the two says whether a tuple fits
a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crosswind.errors import UnsupportedError

__all__ = ["PROTOTYPE", "TupleForm"]


@dataclass(frozen=True)
class TupleForm:
    """Bits of the parts of a tuple; what is not said is the prototype's.

    Parameters
    ----------
    streams, attributes : int
        Tuples in a joined one, and attributes of each.
    attribute_bits, tag_bits, time_bits : int
        Bits of an attribute, of the routing tag, of a timestamp.

    Examples
    --------
    >>> TupleForm().bits
    152
    """

    streams: int = 3
    attributes: int = 4
    attribute_bits: int = 8
    tag_bits: int = 8
    time_bits: int = 24

    @property
    def bits(self) -> int:
        """Bits of a tuple."""
        return self.streams * self.attributes * self.attribute_bits + self.tag_bits + 2 * self.time_bits

    def pack(self, tuples: Sequence[Sequence[int]], tag: int, least: int, greatest: int) -> int:
        """Return a tuple as one word: attributes of the first stream first, then tag, least and greatest time."""
        word = 0
        for values in tuples:
            for value in values:
                word = word << self.attribute_bits | self._checked("an attribute", value, self.attribute_bits)
        word = word << self.tag_bits | self._checked("the tag", tag, self.tag_bits)
        for time in (least, greatest):
            word = word << self.time_bits | self._checked("a time", time, self.time_bits)
        return word

    def unpack(self, word: int) -> tuple[tuple[tuple[int, ...], ...], int, int, int]:
        """Return the attributes of each stream, the tag, the least and the greatest time."""
        parts: list[int] = []
        widths = [self.attribute_bits] * (self.streams * self.attributes) + [
            self.tag_bits,
            self.time_bits,
            self.time_bits,
        ]
        for width in reversed(widths):
            parts.append(word & ((1 << width) - 1))
            word >>= width
        *values, tag, least, greatest = reversed(parts)
        count = self.attributes
        return tuple(tuple(values[k * count : (k + 1) * count]) for k in range(self.streams)), tag, least, greatest

    def check(self, name: str, least: int, greatest: int, bits: int) -> None:
        """Refuse values that do not fit into ``bits``."""
        for value in (least, greatest):
            self._checked(name, value, bits)

    def _checked(self, name: str, value: int, bits: int) -> int:
        if not 0 <= value < 1 << bits:
            raise UnsupportedError(
                f"{name} of {value} does not fit: the processor has {bits} bits for it, 0 to {(1 << bits) - 1:,}. Run "
                "it with a wider TupleForm."
            )
        return int(value)


PROTOTYPE = TupleForm()
"""The form of the paper's prototype."""
