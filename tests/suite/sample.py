"""The part of the suite that ``make test`` runs: few cases, chosen so that every operator is among them.

``python -m suite.sample RESULTS >suite/sample.txt`` in ``tests/`` chooses anew, from the results that
``suite.whole --json RESULTS`` wrote. The cases of ``_ALWAYS`` are always taken: passes were wrong there once, or have
something to do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from suite.backend_models import OPEN, WEIGHTS, all_cases, operators
from suite.trials import INGEST, Outcome

SAMPLE = tuple(Path(__file__).with_suffix(".txt").read_text().split())

_ALWAYS = frozenset(
    (
        "optim_steps_beside_a_convolution",
        "test_affine_grid_2d_expanded+open",
        "test_attention_3d+weights",
        "test_attention_3d_causal_expanded+open",
        "test_averagepool_2d_dilations",
        "test_basic_conv_with_padding+weights",
        "test_bitcast_float32_to_int32",
        "test_castlike_DOUBLE_to_FLOAT_expanded",
        "test_flexattention_score_mod_expanded_ver26",
        "test_gemm_transposeB+weights",
        "test_if_opt",
        "test_if_seq",
        "test_logsoftmax_axis_0",
        "test_loop13_seq",
        "test_mvn",
        "test_operator_pad",
        "test_reduce_sum_empty_axes_input_noop+weights",
        "test_scan9_sum",
        "test_scan_sum",
        "test_scatter_elements_with_reduction_mul",
        "test_scatternd_add",
        "test_sequence_map_identity_1_sequence_expanded",
        "test_sequence_model1",
        "test_split_to_sequence_1",
        "test_swish",
        "test_training_dropout+weights",
    )
)


def chosen(ran: set[str]) -> list[str]:
    """Names of cases that cover the operators, of those that the runtime runs; each variant has its turn."""
    seen: set[str] = set()
    names = []
    for turn, case in enumerate(all_cases()):
        plain = case.name.partition("+")[0]
        variant = ("", f"+{WEIGHTS}", f"+{OPEN}")[turn % 3]
        new = operators(case.model) - seen
        if case.name in ran and (new or case.name in _ALWAYS):
            names.append(plain + variant if plain + variant in ran and case.name not in _ALWAYS else case.name)
            seen |= new
    return sorted(set(names))


def main() -> None:
    """Print the names."""
    results = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    ran = {one["case"] for one in results if one["name"] == INGEST and one["outcome"] == Outcome.RIGHT}
    heavy = {one["case"] for one in results if one["case"].startswith("light")}
    print("\n".join(chosen(ran - heavy)))


if __name__ == "__main__":
    main()
