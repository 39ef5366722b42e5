"""What passes promise by the kernels that they exchange."""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from onnx import TensorProto, helper

from optim import SessionConfig
from optim._engine.backends.held import HeldBackend
from optim._engine.jobs import kernels
from optim._engine.plugins.registry import load_registry
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.store import Store
from optim._engine.timing import work_job
from optim._engine.trace import Action
from optim.backend import FLOAT32, Backend, KernelProbe, KernelRatio
from optim.onnx.backend import OnnxRuntimeBackend
from optim.passes import KernelUse

STATIC = KernelUse(("MatMul", "Conv"), "int8")
FAST = (KernelRatio("MatMul", "int8", "1 row", 0.25, 0.1), KernelRatio("MatMul", "int8", "128 rows", 0.5, 0.1))
TABLE = (KernelRatio("MatMul", "int8", "", 0.8),)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A workbench as far as kernels need one; ``answers`` are what its machine says, in order."""
    monkeypatch.setattr(KernelGains, "measures", True)
    target = load_registry().target("cpu")
    made = SimpleNamespace(
        store=Store(tmp_path),
        target=target,
        place=None,
        machine="this one",
        keys=SimpleNamespace(backend="ort", found=lambda kind, model, sample: f"{kind} of {model} on {sample}"),
        prepared=SimpleNamespace(versions={"onnxruntime": "1"}, timed=(2,), open_s=0.1, run_s=0.1),
        original=SimpleNamespace(model="the original", digest="original"),
        reference=SimpleNamespace(feeds="feeds"),
        shares={},
        rows={},
        deadline=Deadline(60.0),
        say=lambda text: None,
        turns=SimpleNamespace(turn=nullcontext, now=lambda: 0.0),
        answers=[kernels.Answer(FAST, TABLE)],
        asked=[],
        requests=[],
    )

    def call(job, request, *, timeout_s, key=None):
        if job is work_job.JOB:
            return kept.setdefault(key, work_job.Answer(made.shares, made.rows))
        made.asked.append(job)
        made.requests.append(request)
        return made.answers[min(len(made.asked), len(made.answers)) - 1]

    kept = {}
    made.runner = SimpleNamespace(
        call=call,
        known=lambda key, kind: kept.get(key),
        keep=kept.__setitem__,
        noted=lambda name, request: nullcontext(Action()),
    )
    return made


def gains(bench, **work):
    bench.work = work or {"MatMul": 1.0}
    found = KernelGains(bench)
    found.find()
    return found


def test_a_pass_promises_its_best_kernel_on_the_share_of_the_work_that_it_changes(bench):
    assert gains(bench).gain([STATIC]) == pytest.approx(-math.log(0.25))
    assert gains(bench, MatMul=0.5, Softmax=0.5).gain([STATIC]) == pytest.approx(-math.log(1 - 0.5 * 0.75))
    assert gains(bench).gain([KernelUse(("MatMul",), "unheard-of")]) is None


def test_where_products_and_convolutions_share_the_work_it_is_counted(bench):
    bench.shares = {"MatMul": 0.2, "Conv": 0.8}
    guessed, counted = -math.log(1 - 0.02 * 0.75), -math.log(1 - 0.2 * 0.75)
    assert gains(bench, MatMul=0.02, Conv=0.98).gain([STATIC]) == pytest.approx(counted)
    bench.prepared.run_s = 30.0
    assert gains(bench, MatMul=0.02, Conv=0.98).gain([STATIC]) == pytest.approx(guessed), "it takes too long"
    bench.prepared.run_s, bench.original.digest, bench.shares = 0.1, "another", {}
    assert gains(bench, MatMul=0.02, Conv=0.98).gain([STATIC]) == pytest.approx(guessed), "its runtime does not tell"


@pytest.mark.parametrize(("rows", "ratio"), [(1, 0.25), (0.5, 0.25), (128, 0.5), (1000, 0.5), (128**0.5, 0.125**0.5)])
def test_a_product_has_the_ratio_of_its_rows(bench, rows, ratio):
    bench.rows = {"MatMul": rows}
    measured = (replace(FAST[0], rows=1), replace(FAST[1], rows=128))
    bench.answers = [kernels.Answer(measured, TABLE)]
    assert gains(bench).gain([STATIC]) == pytest.approx(-math.log(ratio))


def test_a_pass_that_runs_a_kernel_twice_promises_less(bench):
    twice = KernelUse(("MatMul",), "int8", 2)
    assert gains(bench).gain([twice]) == pytest.approx(-math.log(2 * 0.25))


def test_a_machine_is_measured_once(bench):
    assert gains(bench).gain([STATIC]) != pytest.approx(-math.log(0.8))
    assert gains(bench).gain([STATIC]) != pytest.approx(-math.log(0.8))
    assert len(bench.asked) == 1


def test_a_machine_that_another_run_measured_meanwhile_is_not_measured(bench):
    @contextmanager
    def turn():  # the other run had its turn first
        bench.turns.turn = nullcontext
        assert gains(bench).gain([STATIC]) != pytest.approx(-math.log(0.8))
        yield

    bench.turns.turn = turn
    assert gains(bench).gain([STATIC]) != pytest.approx(-math.log(0.8))
    assert len(bench.asked) == 1


def test_a_disturbed_machine_goes_by_tables_and_says_so(bench):
    noisy = tuple(KernelRatio(one.operator, one.precision, one.shape, 0.01, 0.9) for one in FAST)
    bench.answers = [kernels.Answer(noisy, TABLE)]
    assert gains(bench).gain([STATIC]) == pytest.approx(-math.log(0.8))
    assert "gains from tables" in bench.deadline.notes[0]
    bench.answers = [kernels.Answer(FAST, TABLE)]
    assert gains(bench).gain([STATIC]) != pytest.approx(-math.log(0.8))  # what was disturbed was not kept


def test_a_short_run_measures_nothing_and_goes_by_tables(bench):
    bench.deadline = Deadline(20.0)
    bench.answers = [kernels.Answer((), TABLE)]
    found = gains(bench)
    assert found.gain([STATIC]) == pytest.approx(-math.log(0.8))
    assert [request.timed for request in bench.requests] == [False]
    assert bench.deadline.notes == []
    bench.deadline = Deadline(60.0)
    gains(bench)
    assert [request.timed for request in bench.requests] == [False, True]  # tables were not kept as measured


def _one_node(operator):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


class Probing(OnnxRuntimeBackend):
    name = "probing"

    def kernel_probes(self, target):
        one = SessionConfig({"intra_op_num_threads": 1})
        names = (FLOAT32, "same")
        return [
            *(KernelProbe("MatMul", name, "small", _one_node("Relu"), one) for name in names),
            KernelProbe("MatMul", "refused", "small", _one_node("Nonsense"), one),
        ]

    def known_kernels(self, target):
        return TABLE


def test_kernels_are_timed_beside_float32_and_what_the_runtime_refuses_is_left_out(tmp_path):
    place = SimpleNamespace(target=load_registry().target("cpu").plain, backend=lambda: HeldBackend(Probing, "p 1"))
    assert kernels.run(kernels.Request(place, tmp_path / "models", timed=False), None) == kernels.Answer((), TABLE)
    answer = kernels.run(kernels.Request(place, tmp_path / "models"), None)
    (same,) = answer.measured
    assert (same.operator, same.precision, same.shape) == ("MatMul", "same", "small")
    assert 0.01 < same.ratio < 100
    assert answer.known == TABLE


def test_a_backend_without_kernels_is_not_asked_for_any():
    assert tuple(Backend.kernel_probes(object(), None)) == tuple(Backend.known_kernels(object(), None)) == ()
