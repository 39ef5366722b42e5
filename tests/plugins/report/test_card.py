"""The model card: the hub's own library reads it, its figures are those of the report, and texts stay texts."""

from __future__ import annotations

import pytest
import sample_outcome as sample

from optim._engine.reports.build import build_report
from optim_plugins.report.card import model_card

hub = pytest.importorskip("huggingface_hub", reason="the hub's own library is not installed (it comes with torch)")


def test_the_hub_s_own_library_reads_the_figures():
    report = build_report(sample.improved())
    card = hub.ModelCard(model_card(report))
    found = {one.metric_type: one.metric_value for one in card.data.eval_results}
    assert report.result is not None
    assert found["relative_error"] == report.result.drift.relative_error
    assert found["latency_ratio"] == report.result.latency_ratio
    assert found["size_bytes"] == report.result.size_bytes
    assert card.data.library_name == "onnx"


def test_it_says_how_far_how_made_and_how_to_repeat():
    text = model_card(build_report(sample.improved()))
    assert "Drift 0.15:" in text and "The accuracy budget: a drift of" in text
    assert "`ort.quantize-dynamic`, `per_channel, keep=head`:" in text
    assert "--recipe recipe.lock.toml" in text
    assert "Latency ratio 0.43, 95 % interval 0.42 to 0.44" in text
    assert "/cache/" not in text and "/home" not in text  # whose folder it lay in is nobody's business


def test_the_original_as_it_is_has_a_card_too():
    assert "It is the original" in model_card(build_report(sample.unchanged()))


def test_it_names_a_pass_that_broke():
    text = model_card(build_report(sample.with_broken_pass(sample.unchanged())))
    assert "It is the original: no candidate was better. Passes that failed: acme.fuse-all." in text


def test_what_somebody_wrote_is_shown_and_not_obeyed():
    report = build_report(sample.improved())
    notes = ("<script>alert(1)</script>", "one\n---\ntags: [mine]", "[link](https://elsewhere) | `code`")
    text = model_card(report.model_copy(update={"notes": notes}))
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "\\[link\\](https://elsewhere) \\| \\`code\\`" in text
    assert hub.ModelCard(text).data.tags == ["onnx", "optim"]
    odd = report.original.model_copy(update={"path": 'C:\\secret\\a": b\n---\n.onnx'})
    card = hub.ModelCard(model_card(report.model_copy(update={"original": odd})))
    assert card.data.library_name == "onnx" and "secret" not in card.text


def test_a_figure_that_is_not_finite_is_left_out():
    report = build_report(sample.improved())
    assert report.result is not None
    drift = report.result.drift.model_copy(update={"relative_error": None})
    report = report.model_copy(update={"result": report.result.model_copy(update={"drift": drift})})
    kinds = [one.metric_type for one in hub.ModelCard(model_card(report)).data.eval_results]
    assert "relative_error" not in kinds and "cosine" in kinds


def test_it_names_the_worst_slice_and_sample_what_differs_and_what_was_not_judged():
    outcome = sample.improved()
    outcome.result = sample.compared_as(outcome.result, *sample.misplaced())
    text = model_card(build_report(outcome))
    assert "drift 0.15 at output 'logits', column 3, within the budget of 0.17" in text
    assert "Drift 0.15 at output 'logits', column 3: the worst error" in text
    top = "top 1 stays in 97 % of rows; 25 % of its elements are off by more than 0.1"
    assert f"- `logits`: worst at column 3, sample 4; {top}" in text
    assert "- `ids`: 1.3 % differ" in text
    assert "- `mask`: not judged: it is one number on all samples" in text
