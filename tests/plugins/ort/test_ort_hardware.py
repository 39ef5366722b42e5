"""The table of what is assumed about processors, for each class of them."""

from __future__ import annotations

import pytest

from optim.processor import Assumption, Processor
from optim_plugins.ort import hardware, kernel_probes
from optim_plugins.ort.hardware import TABLE

VNNI = Processor("x86_64", frozenset({"avx2", "avx512f", "avx512_vnni"}))
AVX512 = Processor("x86_64", frozenset({"avx2", "avx512f", "avx512bw"}))
AVX2 = Processor("x86_64", frozenset({"avx", "avx2", "fma"}))
SSE = Processor("x86_64", frozenset({"sse4_1"}))
ARM = Processor("aarch64", frozenset({"asimd", "asimddp"}))
OLD_ARM = Processor("aarch64", frozenset({"asimd"}))
APPLE = Processor("arm64")
OTHER = Processor("riscv64", frozenset({"v"}))
ALL = (VNNI, AVX512, AVX2, SSE, ARM, OLD_ARM, APPLE, OTHER)


@pytest.mark.parametrize(
    ("processor", "exact", "blocks", "lanes", "fills", "signed_slow"),
    [
        (VNNI, True, True, 16, True, True),
        (AVX512, False, True, 16, True, True),
        (AVX2, False, True, 8, True, True),
        (SSE, False, False, 8, True, True),
        (ARM, True, True, 8, False, False),
        (OLD_ARM, True, False, 8, False, False),
        (APPLE, True, True, 8, False, False),
        (OTHER, True, False, 8, False, False),
    ],
)
def test_passes_read_the_table(
    monkeypatch: pytest.MonkeyPatch,
    processor: Processor,
    exact: bool,
    blocks: bool,
    lanes: int,
    fills: bool,
    signed_slow: bool,
) -> None:
    monkeypatch.setattr(hardware, "this_processor", lambda: processor)
    assert hardware.multiplies_integers_exactly() is exact
    assert hardware.multiplies_blocks() is blocks
    assert hardware.convolution_lanes() == lanes
    assert hardware.fills_channels() is fills
    assert hardware.signed_are_slow() is signed_slow


@pytest.mark.parametrize("assumption", TABLE, ids=lambda one: one.subject)
def test_every_row_says_what_holds_for_every_processor_and_why(assumption: Assumption) -> None:
    for processor in ALL:
        case = assumption.case(processor)
        assert case.source in ("documented", "assumed"), "flags are known, nothing is measured"
        assert case.evidence
        assert assumption.value(processor) is not None


def test_ratios_of_kernels_that_were_not_timed_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def static_ratio(processor: Processor) -> float:
        monkeypatch.setattr("optim.processor.this_processor", lambda: processor)
        return next(one.ratio for one in kernel_probes.known() if one.precision == kernel_probes.STATIC)

    assert static_ratio(VNNI) == hardware.STATIC_RATIO.value(VNNI)
    assert static_ratio(AVX2) == hardware.STATIC_RATIO.value(AVX2)
    assert static_ratio(AVX2) != static_ratio(VNNI)


def test_what_can_be_measured_here_is_and_agrees_with_the_instruction_sets() -> None:
    found = hardware.ADDS_IN_32_BITS.here()
    assert found.source == "measured"
    assert found.value == hardware.multiplies_integers_exactly()
