"""Which samples results are compared on, and which they are timed on."""

from __future__ import annotations

from collections.abc import Sequence

from optim._engine.feeds.feedset import FeedSet
from optim.arrays import Feeds
from optim.errors import some_of

_TIMED_SHAPES = 3


def spread_of(samples: Sequence[int], most: int) -> tuple[int, ...]:
    """At most so many of some samples, spread evenly, the first among them."""
    count, last = min(len(samples), most), len(samples) - 1
    places = {round(number * last / max(1, count - 1)) for number in range(count)}
    return tuple(samples[place] for place in sorted(places))


def judged_on(feeds: FeedSet, most: int) -> tuple[int, ...]:
    """At most so many samples to compare on: first those that no pass sees, then others, spread evenly."""
    held_out = spread_of(feeds.held_out, most)
    return held_out + spread_of(feeds.calibration, most - len(held_out))


def timed_samples(compared: Sequence[int], feeds: FeedSet) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """One for each of the first distinct shapes, and what these look like."""
    found: dict[str, int] = {}
    for sample in compared:
        found.setdefault(_shape_text(feeds.sample(sample)), sample)
        if len(found) == _TIMED_SHAPES:
            break
    return tuple(found.values()), tuple(found)


def _shape_text(feeds: Feeds) -> str:
    """The shapes of one sample in a few words; many alike (past key/values) are named once."""
    words = [f"{name} {'x'.join(map(str, array.shape)) or 'scalar'}" for name, array in feeds.items()]
    return some_of(words, 4)
