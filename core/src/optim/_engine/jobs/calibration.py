"""The samples that a pass may fit a model to, and what its step says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from optim._engine.compare.place import mapped_feeds
from optim._engine.feeds.feedset import FEWEST, SYNTHESIZED, FeedSet
from optim.arrays import Feeds
from optim.passes import Interface


class Calibration:
    """What :attr:`optim.Context.samples` is: called for a fresh iterator over all that is not held out.

    Attributes:
        feeds_given: whether the samples are the user's.
    """

    def __init__(self, feeds: Path, interfaces: Sequence[Interface] = ()) -> None:
        """Read what samples there are.

        Args:
            feeds: their folder.
            interfaces: of the steps before: samples are as the model takes them.
        """
        self._feeds, self._interfaces = FeedSet.open(feeds), interfaces
        self._was_asked = False
        self.feeds_given = self._feeds.origin != SYNTHESIZED

    def __call__(self) -> Iterator[Feeds]:
        self._was_asked = True
        return (mapped_feeds(self._feeds.sample(index), self._interfaces) for index in self._feeds.calibration)

    @property
    def notes(self) -> tuple[str, ...]:
        """For the step of a pass that asked for the user's samples: what it was fitted to."""
        if not self._was_asked or not self.feeds_given:
            return ()
        count = len(self._feeds)
        if self._feeds.held_out:
            return (f"calibrated on {len(self._feeds.calibration)} of {count} samples, judged on the others too",)
        same = "the one sample" if count == 1 else f"the {count} samples"
        return (
            f"calibrated on {same} used to measure drift, so other samples may drift more; "
            f"with {FEWEST} or more samples, optim holds out every fourth",
        )
