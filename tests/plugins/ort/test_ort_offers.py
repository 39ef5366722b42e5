"""What passes of ``ort`` offer for a model, asked as a run asks them."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

from ort_models import CPU, export, feeds_for

from optim._engine.feeds.feedset import SYNTHESIZED, FeedWriter
from optim._engine.jobs import offer
from optim._engine.jobs.offer import PassQuestion
from optim.jobs import Channel
from optim.jobs.talk import Talk, pair


def _ask(folder: Path, *, forced: bool, origin: str = "a test") -> Any:
    """What ``ort.quantize-static`` offers for a decoder that sees one token at a time."""
    with FeedWriter(folder / "feeds") as writer:
        writer.add(feeds_for("gpt2.dynamo", batch=1, sequence=1))
        writer.finish(origin, ())
    model = export("gpt2.dynamo", folder)
    asked = (PassQuestion("ort.quantize-static", "ort", forced=forced),)
    parent, its_end = pair()
    request = offer.Request(model, CPU, asked, folder / "store", folder / "feeds", 0)
    offer.run(request, Channel(Talk(its_end), queue.Queue()))
    assert parent.receive(0.0)["event"] == "asking"
    return parent.receive(0.0)["offer"]


def test_a_pass_that_proposes_nothing_says_why(tmp_path: Path) -> None:
    said = _ask(tmp_path, forced=False)
    assert not said["applicable"]
    assert "do not show what ranges the next ones will have" in said["reason"]


def test_what_is_named_is_tried_though_the_pass_would_propose_nothing(tmp_path: Path) -> None:
    (proposal,) = _ask(tmp_path, forced=True)["proposals"]
    assert proposal["options"]["calibration"] == "minmax"


def test_ranges_are_not_measured_on_synthesized_samples_unless_the_pass_is_named(tmp_path: Path) -> None:
    said = _ask(tmp_path, forced=False, origin=SYNTHESIZED)
    assert not said["applicable"]
    assert said["reason"] == "it measures ranges on samples, and optim synthesized these: give yours with --data"


def test_a_named_pass_measures_ranges_on_synthesized_samples(tmp_path: Path) -> None:
    assert _ask(tmp_path, forced=True, origin=SYNTHESIZED)["proposals"]
