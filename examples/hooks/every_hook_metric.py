"""The metric with an option that ``every_hook`` adds; imported when it is used."""

from __future__ import annotations

from pydantic import Field

from optim import Metric, PassOptions


class NearOptions(PassOptions):
    within: float = Field(default=0.1, gt=0, description="how far from the label a value may be")


def near(options: NearOptions) -> Metric:
    """Share of values near the label, for --metric "every-near:within=0.5"."""

    def call(outputs, feeds, labels) -> float:
        return float((abs(outputs["y"] - labels["label"]) <= options.within).mean())

    return Metric("every-near", higher_is_better=True, call=call, needs_labels=True)
