"""What won on near models in earlier runs: tried first, and believed as far as the race and the gate say the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from boards import timed_at
from installed_plugin import installed
from jobs_here import done_here
from onnx import TensorProto, helper, numpy_helper
from timed_models import write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search import experience
from optim._engine.search.experience import Architecture, Experience, WonStep
from optim._engine.search.explore import recall
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import Step, StepStatus
from optim._engine.store import Store
from optim.onnx.operators import work_by_weight
from optim.passes import Role, Stage

pytestmark = pytest.mark.slow

WASTE = {"a": 6, "b": 6, "c": 6}

BERT = Experience(
    model="bert.onnx",
    day="2026-11-03",
    architecture=Architecture({"MatMul 768x768": 0.4, "MatMul 768x3072": 0.6}, 128),
    processor="a processor/2",
    kernels="avx2",
    target="cpu",
    goal="latency",
    budget="a drift of 0.1",
    asked="what was asked",
    made_with="versions",
    searched_s=80.0,
    chain=(WonStep("timed.drop-a", {}),),
    ratio=0.4,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, counted_clock):
    """A run that false records precede, and one of the same architecture with other weights after it."""
    folder = tmp_path_factory.mktemp("recall")
    with installed(folder, "timed_plugin", "rivals_plugin"), pytest.MonkeyPatch.context() as patch, done_here():
        registry, store = load_registry(), Store()
        names = {offered.name for offered in registry.offers(registry.target("cpu"))}
        without = tuple(sorted(name for name in names if not name.startswith("timed.")))

        def run(seed, **changes):
            model = write_network(folder / f"weights-{seed}.onnx", WASTE, seed=seed)
            asked = {"without": without, "search_seconds": 80.0, "most_samples": 4, **changes}
            return execute(RunSettings(model, **asked), registry, store, lambda text: None)

        patch.setattr(recall.Recall, "is_on", True)
        with pytest.MonkeyPatch.context() as lying:
            lying.setattr(recall, "nearest", lambda known, run: [replace(of_lie(run), chain=one) for one in FALSE])
            first = run(0)
        yield first, run(1), run


def of_lie(run, ratio=0.1):
    """A record that says that a chain changes no product, and gains so much."""
    return replace(run, model="false.onnx", ratio=ratio)


FALSE = (
    (WonStep("timed.round", {"strength": "all"}), WonStep("timed.gone", {})),
    (WonStep("timed.drop-a", {}), WonStep("timed.pointless", {})),
    (WonStep("timed.round-heavily", {"strength": 0.6}),),
)
"""An option and a pass that are not there; slower than it is said to be; beyond any budget."""


def chain_of(outcome):
    return [step.pass_name.removeprefix("timed.") for step in outcome.result.candidate.steps]


def test_false_records_cost_a_fifth_of_the_tries_at_most_and_change_no_result(runs):
    first = runs[0]
    assert chain_of(first) == ["drop-a", "make-way", "drop-b", "round"]
    assert not any("ended early" in note for note in first.notes)
    for_records = [one for one in first.attempts if any("false.onnx" in note for note in one.notes)]
    assert for_records and {one.step.pass_name for one in for_records} == {"timed.drop-a", "timed.pointless"}
    tried = [one for one in first.attempts if one.drift is not None or one.ratio is not None]
    assert len(for_records) <= 0.2 * (len(tried) - len(for_records))


def test_other_weights_end_with_what_won_before_in_two_fifths_of_the_work(runs):
    first, second, _ = runs
    assert chain_of(second) == chain_of(first)
    assert second.result.ratio == pytest.approx(first.result.ratio, rel=0.03)
    assert second.computed <= 0.4 * first.computed
    kept = [one for one in second.attempts if one.status is StepStatus.KEPT]
    assert all("tried first, because it won on weights-0.onnx on " in one.notes[0] for one in kept)
    assert any("won on weights-0.onnx on " in note and "--no-cache" in note for note in second.notes)
    (left,) = [one for one in second.attempts if one.step.pass_name == "timed.pointless" and not one.on]
    assert left.reason.startswith("not tried: ")


WITHOUT_NAMED = (WonStep("timed.make-way", {}), WonStep("timed.drop-b", {}))


@pytest.mark.parametrize(
    "asked",
    [{"goal": "size", "named": (Named("timed.drop-a"),)}, {"target": "cpu,swift", "stages": ("fuse",)}],
    ids=["size", "targets"],
)
def test_other_goals_named_passes_and_several_targets_have_experience(runs, monkeypatch, asked):
    run = runs[2]
    with monkeypatch.context() as lying:  # a chain without what is named ends no search
        if "named" in asked:
            lying.setattr(recall, "nearest", lambda known, run: [replace(of_lie(run, 0.9), chain=WITHOUT_NAMED)])
        first = run(0, **asked)
    second = run(1, **asked)
    assert "drop-a" in chain_of(first) and chain_of(second) == chain_of(first)
    assert second.result.candidate.target == first.result.candidate.target
    assert not any("ended early" in note for note in first.notes)
    assert any("ended early" in note for note in second.notes)
    assert second.computed < first.computed
    reasons = {row.name: row.reason for row in second.targets if row.status != "delivered"}
    assert all(reason.startswith("not searched: timed.drop-a") for reason in reasons.values())


def test_a_run_without_time_tries_no_record(runs):
    _, _, run = runs
    assert not any("tried first" in note for row in run(2, search_seconds=0.0).attempts for note in row.notes)


def test_a_record_of_less_time_of_other_versions_or_of_a_busy_machine_ends_no_search():
    run = replace(BERT, searched_s=60.0, asked_s="auto")
    assert replace(run, searched_s=40.0).may_end(run)  # both left the time to optim
    assert replace(run, asked_s=80.0, searched_s=80.0).may_end(run)
    assert not replace(run, asked_s=30.0, searched_s=30.0).may_end(run)
    assert not replace(run, made_with="other versions").may_end(run)
    disturbed = replace(run, is_quiet=False, searched_s=300.0)
    assert not disturbed.may_end(run)
    assert disturbed.after_search_of([disturbed, run]).may_end(run)


def products(path, names):
    """A model of products by these names: the first two have weights of one shape, the second one's is transposed."""
    nodes = [
        helper.make_node("MatMul", ["given", "a"], ["one"], names[0]),
        helper.make_node("Gemm", ["one", "b"], ["two"], names[1], transB=1),
        helper.make_node("MatMul", ["two", "c"], ["out"], names[2]),
    ]
    weights = [numpy_helper.from_array(np.ones(size, np.float32), name) for name, size in SIZES.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("given", "out")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "products", values[:1], values[1:], weights)), path)
    return path


SIZES = {"a": (8, 4), "b": (8, 4), "c": (8, 8)}


def test_nodes_that_stay_in_float_are_found_by_their_place_in_another_export(tmp_path):
    first = products(tmp_path / "first.onnx", ["q", "k", "v"])
    other = products(tmp_path / "other.onnx", ["MatMul_1", "Gemm_2", "MatMul_3"])
    options = {"keep": ["k"], "finer": ["v"], "bits": 8}
    kept = experience.with_places(options, first)
    assert kept == {"keep": ["MatMul 4x8 2"], "finer": ["MatMul 8x8 1"], "bits": 8}
    assert experience.with_names(kept, other) == {"keep": ["Gemm_2"], "finer": ["MatMul_3"], "bits": 8}
    assert experience.with_places(options, None) == {"keep": [], "finer": [], "bits": 8}


def test_a_chain_does_what_it_did_if_it_changes_as_many_products_and_has_half_of_the_gain(tmp_path):
    one = replace(BERT, changed=0.9, ratio=0.5)
    assert one.is_met_by(0.8, 0.6) and not one.is_met_by(0.8, 0.75) and not one.is_met_by(0.8, None)
    assert not one.is_met_by(0.6, 0.5)
    assert not replace(one, ratio=0.96).is_met_by(0.9, 0.97)  # no better than the original
    work = work_by_weight(products(tmp_path / "result.onnx", ["q", "k", "v"]))
    product, *others = work
    quantized = {f"{product} of integers": work[product]} | {name: work[name] for name in others}
    changed = Architecture(quantized, 8).changed_by(tmp_path / "result.onnx")
    assert changed == pytest.approx(work[product])


def test_a_chain_that_breaks_the_budget_on_all_samples_only_is_repaired_before_the_proof(monkeypatch):
    made, beyond, repaired = (
        SimpleNamespace(is_original=False, digest=name, steps=()) for name in ("made", "beyond", "repaired")
    )
    records = {"made": SimpleNamespace(broken=beyond), "repaired": SimpleNamespace(broken=None)}

    class Board(dict):
        explored = timed = attempts = note_objections = staticmethod(lambda *given: None)
        objective = SimpleNamespace(is_size=False)

        def __getitem__(self, candidate):
            return records[candidate.digest]

    def first_look(candidates, seconds, *, on_all_samples):
        assert on_all_samples
        return [timed_at(one, 0.6) for one in candidates if records[one.digest].broken is None]

    repairs = SimpleNamespace(on_all_samples=lambda broken, most_s: {"beyond": repaired}[broken.digest])
    time = SimpleNamespace(before=lambda name: 9.0)
    clock = SimpleNamespace(first_look=first_look, board=Board(), time=time)
    one = recall.Recall(None, None, None, SimpleNamespace(repairs=repairs), clock)
    monkeypatch.setattr(one, "_made", lambda record: made)
    assert one._looked_at(BERT) == timed_at(repaired, 0.6)


def step(name):
    return Step(Stage.QUANTIZE, name, "", {}, Role.IMPROVE, lossy=True)


def test_a_record_has_no_path_and_is_of_the_same_request_on_the_same_processor():
    smaller = replace(BERT, architecture=Architecture({"MatMul 384x384": 1.0}, 128))
    longer = replace(BERT, architecture=replace(BERT.architecture, elements=512))
    others = [replace(BERT, **{name: "other"}) for name in ("processor", "kernels", "asked")]
    assert experience.nearest([smaller, longer, *others, replace(BERT, chain=())], BERT) == []
    head = replace(
        BERT, model="head.onnx", architecture=Architecture({**BERT.architecture.work, "Gemm 2x768": 0.01}, 128)
    )
    better = replace(BERT, chain=(WonStep("timed.round", {}),), ratio=0.3)
    assert experience.nearest([head, better, replace(BERT, searched_s=9.0)], BERT) == [better, head]


def test_records_of_concurrent_runs_are_all_kept_and_damaged_ones_are_named_once(tmp_path):
    store = Store(tmp_path)
    new = [replace(BERT, asked=str(number)) for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda one: experience.keep(Store(tmp_path), one), new)) == {""}
    assert sorted(experience.read(store)[0], key=lambda one: int(one.asked)) == new
    for name, text in {"cut": "{", "foreign": '{"model": 1}', "binary": "\x00"}.items():
        (tmp_path / experience.SHELF / f"{name}.json").write_text(text)
    found, said = experience.read(store)
    assert len(found) == 20 and "optim deleted these: 3 (" in said
    assert experience.read(store)[1] == ""


def test_a_record_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / experience.SHELF / f"{BERT.key}.json" / "inside").mkdir(parents=True)
    assert experience.keep(Store(tmp_path), BERT).startswith("what this run found was not saved for later runs: ")
