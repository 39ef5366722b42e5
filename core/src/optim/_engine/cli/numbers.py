"""Numbers as options of the command line: seconds, and the seed of everything random."""

from __future__ import annotations

from typing import Any

import click


class _Seconds(click.FloatRange):
    """A time above zero: FloatRange alone lets nan pass, and what is infinite overflows somewhere."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of seconds."""
        from optim._engine.search.settings import LONGEST_S

        seconds = float(super().convert(value, param, ctx))
        if not seconds <= LONGEST_S:
            self.fail(f"{seconds:g} is no number of seconds up to {LONGEST_S:.0f}, a month.", param, ctx)
        return seconds


SECONDS = _Seconds(min=0, min_open=True)
SEED = click.IntRange(min=0)
