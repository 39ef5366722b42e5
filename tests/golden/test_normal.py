"""What the golden files leave out, and what they keep."""

from __future__ import annotations

import pytest

from golden.normal import normal, normal_json


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ratio 0.50 of 12.1 ms", "ratio # of # ms"),
        ("drift 1e-07 is below 0.1", "drift # is below #"),
        ("peak memory 53 MB, 445992 B", "peak memory # MB, # B"),
        ("optim-plugins 0.1.0, onnxruntime==1.31.1", "optim-plugins #, onnxruntime==#"),
        ("started 2026-11-27T05:00:41+00:00", "started <time>"),
        ("digest 537a2a73bf985d367ee8bf7d8b159625", "digest <digest>"),
        ("0.4995884773662552", "#"),
        ("/tmp/here/model.onnx", "<folder>/model.onnx"),
        ("[   1.5 s] trying b\n[   1.6 s] trying a\n", "[   # s] trying a\n[   # s] trying b\n"),
        ("[ 1.5 s] trying b\ninfo: c\n[ 1.6 s] trying a\n", "[ # s] trying a\n[ # s] trying b\ninfo: c\n"),
        ("best of 3, 576 elements, float32, opset 17", "best of 3, 576 elements, float32, opset 17"),
    ],
)
def test_numbers_of_the_machine_go_and_words_stay(text: str, kept: str) -> None:
    assert normal(text, "/tmp/here") == kept


def test_json_keeps_its_keys_their_order_and_what_is_null() -> None:
    text = '{"b": null, "a": [1, 2.5], "machine": {"cpu": "x", "sets": ["avx"]}}'
    kept = '{ "b": null, "a": [ 1, # ], "machine": { "cpu": "#", "sets": [ "#" ] } }'
    assert " ".join(normal_json(text, "/tmp/here").split()) == kept
