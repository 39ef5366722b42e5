"""What the plugin assumes about processors."""

from __future__ import annotations

from optim.processor import Processor
from optim_openvino.runtime.core import capabilities
from optim_openvino.runtime.hardware import ADDS_IN_32_BITS, TABLE


def test_precisions_are_asked_of_openvino_itself() -> None:
    found = {row.subject: row for row in (one.here() for one in TABLE)}
    for name, precision in (("bfloat16", "BF16"), ("float16", "FP16")):
        row = found[f"a model can be computed in {name} by a hint"]
        assert row.value == (precision in capabilities("CPU"))
        assert row.source == "measured"


def test_integers_saturate_without_vnni() -> None:
    assert not ADDS_IN_32_BITS.value(Processor("x86_64", frozenset({"avx2"})))
    assert ADDS_IN_32_BITS.value(Processor("x86_64", frozenset({"avx2", "avx_vnni"})))
    assert ADDS_IN_32_BITS.value(Processor("aarch64", frozenset({"asimd"})))
