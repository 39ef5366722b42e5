"""``ort.tune-session``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
from onnx import helper
from ort_models import CPU, apply, build, context, export

from optim import Model, OptimError, SessionConfig, Target
from optim.onnx import open_session
from optim.options import parse_options
from optim_plugins.ort.plugin import OrtBackend
from optim_plugins.ort.tune.optimizer_names import TRANSFORMERS
from optim_plugins.ort.tune.tune_session import TuneSession
from optim_plugins.ort.tune.tune_session_options import TuneSessionOptions


def _plain(folder: Path) -> Model:
    return build(folder, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": [2]}, {"y": [2]})


def test_settings_are_laid_over_those_the_model_has(tmp_path: Path) -> None:
    model = _plain(tmp_path).with_session(SessionConfig({"intra_op_num_threads": 1}, {}, ("GeluFusionL2",)))
    result = apply(TuneSession, model, tmp_path, level="basic", disabled_optimizers=("SkipLayerNormFusion",))
    assert result.changed
    assert result.model.session == SessionConfig(
        {"intra_op_num_threads": 1, "graph_optimization_level": "ORT_ENABLE_BASIC"},
        {},
        ("GeluFusionL2", "SkipLayerNormFusion"),
    )
    assert result.model.path == model.path
    assert result.model.digest != model.digest


def test_settings_that_the_model_has_already_change_nothing_and_it_says_so(tmp_path: Path) -> None:
    once = apply(TuneSession, _plain(tmp_path), tmp_path, intra_op_num_threads=1)
    twice = apply(TuneSession, once.model, tmp_path, intra_op_num_threads=1)
    assert not twice.changed
    assert twice.notes == ("the model has these settings already",)


def test_the_level_that_the_runtime_has_anyway_changes_nothing(tmp_path: Path) -> None:
    """A clock called it 0.95 once: what changes nothing is never timed."""
    plain = _plain(tmp_path)
    named = apply(TuneSession, plain, tmp_path, level="all")
    assert not named.changed
    assert named.model.digest == plain.digest
    basic = apply(TuneSession, plain, tmp_path, level="basic").model
    assert apply(TuneSession, basic, tmp_path, level="all").changed


def test_every_candidate_opens_and_no_two_are_alike(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    candidates = list(TuneSession().candidates(model, CPU, context(tmp_path)))
    tuned = [apply(TuneSession, model, tmp_path, **one.model_dump(exclude_none=True)).model for one in candidates]
    assert 3 <= len({one.digest for one in tuned}) == len(candidates) <= 8
    for one in tuned:
        OrtBackend().open(one, CPU).close()


def test_a_thread_for_each_core_that_a_container_gives_is_tried_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proposed(threads: int, cores: int) -> list[int | None]:
        monkeypatch.setattr("optim.jobs.resources.usable_processors", lambda: threads)
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        found = TuneSession().candidates(_plain(tmp_path), CPU, context(tmp_path))
        return [one.intra_op_num_threads for one in found]

    assert proposed(1, 64)[0] == 1
    assert proposed(8, 64)[0] == 8 and proposed(8, 64)[-1] == 4
    assert set(proposed(2, 2)) == {None}


def test_the_optimizer_that_slows_layer_normalization_is_switched_off_only_where_there_is_one(tmp_path: Path) -> None:
    def disabled(model: Model) -> set[str]:
        found = TuneSession().candidates(model, CPU, context(tmp_path))
        return {name for one in found for name in one.disabled_optimizers}

    assert "SkipLayerNormFusion" in disabled(export("bert.ts", tmp_path))
    assert not disabled(_plain(tmp_path))


def test_no_candidate_has_more_threads_than_the_target_and_more_are_refused(tmp_path: Path) -> None:
    model = _plain(tmp_path)

    def threads(target: Target) -> set[int | None]:
        return {one.intra_op_num_threads for one in TuneSession().candidates(model, target, context(tmp_path))}

    assert threads(replace(CPU, threads=6)) == {None, 3}
    assert threads(replace(CPU, threads=1)) == {None}
    TuneSession().refuse(TuneSessionOptions(intra_op_num_threads=2), replace(CPU, threads=2))
    with pytest.raises(OptimError, match="too-many-threads") as caught:
        TuneSession().refuse(TuneSessionOptions(intra_op_num_threads=3), replace(CPU, threads=2))
    assert "3 threads" in caught.value.what and "cpu:threads=3" in caught.value.fix


def test_a_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        apply(TuneSession, _plain(tmp_path), tmp_path, level="fastest")
    assert caught.value.reference == "bad-option"


def test_it_changes_settings_only_and_is_always_applicable(tmp_path: Path) -> None:
    assert TuneSession.session_only
    assert TuneSession().applicable(_plain(tmp_path), CPU)


def test_a_name_that_no_optimizer_has_is_refused_with_the_near_ones() -> None:
    options = TuneSessionOptions(disabled_optimizers=("LayerNormFusion",))
    with pytest.raises(OptimError, match="there is no optimizer 'LayerNormFusion'") as refused:
        TuneSession().refuse(options, CPU)
    assert refused.value.reference == "unknown-optimizer"
    assert "LayerNormFusionL1" in refused.value.cause
    TuneSession().refuse(TuneSessionOptions(disabled_optimizers=("LayerNormFusionL1", "ConvBNFusion")), CPU)


def test_every_transformer_of_the_runtime_is_known_and_can_be_left_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = _plain(tmp_path)

    def used(disabled: tuple[str, ...] = ()) -> set[str]:
        options = ort.SessionOptions()
        options.log_severity_level = 1
        ort.InferenceSession(model.path, options, ["CPUExecutionProvider"], disabled_optimizers=list(disabled))
        return set(re.findall(r"GraphTransformer (\S+) modified", capfd.readouterr().err))

    required = {
        "CastFloat16Transformer",
        "EnsureUniqueDQForNodeUnit",
        "MemcpyTransformer",
        "RemoveDuplicateCastTransformer",
    }
    assert used() - required <= TRANSFORMERS
    assert used(tuple(TRANSFORMERS)) <= required


def test_every_name_that_a_search_proposes_is_one_of_the_runtime(tmp_path: Path) -> None:
    for options in TuneSession().candidates(export("bert.ts", tmp_path), CPU, context(tmp_path)):
        TuneSession().refuse(options, CPU)


def test_threads_are_bound_to_processors(tmp_path: Path) -> None:
    options = {"intra_op_num_threads": 2, "intra_op_thread_affinities": ("1",)}
    model = apply(TuneSession, _plain(tmp_path), tmp_path, **options).model
    assert model.session.session_config == {"session.intra_op_thread_affinities": "1"}
    open_session(model.path, model.session)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"intra_op_thread_affinities": ["1"]}, "1 affinities are for intra_op_num_threads=2"),
        ({"intra_op_thread_affinities": ["0"], "intra_op_num_threads": 2}, "'0' names no processors"),
        ({"intra_op_thread_affinities": ["a"], "intra_op_num_threads": 2}, "'a' names no processors"),
    ],
)
def test_affinities_that_do_not_fit_are_refused(options: Any, said: str) -> None:
    with pytest.raises(OptimError) as refused:
        parse_options(TuneSession, options)
    assert said in refused.value.cause
