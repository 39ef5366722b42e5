"""Makes up feeds for a model and runs it on them."""

from __future__ import annotations

import onnxruntime
from feed_models import write

from optim._engine.feeds.synthesize import synthesize_feeds

onnxruntime.set_default_logger_severity(4)


def runner(model):
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


def made(tmp_path, proto, *, checked=True, seed=0, **options):
    model = write(proto, tmp_path / "model.onnx")
    run = runner(model)
    feeds = synthesize_feeds(model, tmp_path / f"feeds{seed}", seed, check=run if checked else None, **options)
    samples = list(feeds.iterate())
    for sample in samples:
        run(sample)
    return feeds, samples


def about(feeds, name) -> str:
    return " ".join(assumption.text for assumption in feeds.assumptions if assumption.input == name)
