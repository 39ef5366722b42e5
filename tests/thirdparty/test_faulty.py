"""A vendor's mistakes, planted one at a time: what finds each, the kit or a run, and what it says.

The device runs models by onnx's reference evaluator; the environment variable FAULTY names the mistake.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import onnx
import pytest
from fresh_environment import fresh_environment

from optim import Report
from optim_plugins.report.card import model_card
from optim_plugins.report.page import render_html
from optim_testing import models

pytestmark = pytest.mark.slow

RELEASE = "optim-plugin-faulty 0.3.0"
BACKEND = f"backend faulty ({RELEASE})"

SECONDS = 20
"""Of a run that a hang may use up; any other ends before."""

ENOUGH = 100
"""Of a run that must get to its end, on a machine that is several times slower too."""

BEYOND_S = 10
"""Beyond its seconds that a run may end: 5 s that any call may take, and starting and ending processes. At load 8 on
two cores the longest of these took 21 s of 20."""


@pytest.fixture(scope="module")
def environment():
    return fresh_environment()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a model that the vendor's pass makes several times faster, and one of two outputs."""
    folder = tmp_path_factory.mktemp("faulty")
    models.two_outputs(folder)
    graph = onnx.load(models.mlp(folder))
    for _ in range(60):
        first = graph.graph.node[0]
        inner = f"n{len(graph.graph.node)}"
        for source, result in ((inner, f"{inner}b"), (first.input[0], inner)):
            graph.graph.node.insert(0, onnx.helper.make_node("Neg", [source], [result], name=f"Neg_{result}"))
        first.input[0] = f"{inner}b"
    onnx.save(graph, folder / "negated.onnx")
    return folder


@dataclass(frozen=True)
class Ran:
    """A run.

    Attributes:
        status: of the command.
        told: what it said, and the report of what it did.
        report: None where there is none.
    """

    status: int
    told: str
    report: dict[str, Any] | None

    def row(self, name):
        """What became of a pass: its status and reason."""
        (found,) = {(step["status"], step["reason"]) for step in self.report["steps"] if step["pass"] == name}
        return found


@pytest.fixture
def run(environment, folder, tmp_path):
    """A run with a mistake, within its seconds."""

    def ran(mistake, *arguments, target="faulty", source="negated.onnx", seconds=SECONDS):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = ["optim", "run", str(folder / source), "--target", target, "-o", str(out)]
        words += ["--search-seconds", str(seconds), *arguments]
        began = time.monotonic()
        done = environment.run(
            *words,
            FAULTY=mistake,
            FAULTY_DEVICE=str(tmp_path / "device"),
            OPTIM_CACHE_DIR=str(tmp_path / "cache"),
            OPTIM_DISABLE_PLUGINS="broken-cycle,broken-exit,broken-raise",
        )
        took_s = time.monotonic() - began
        assert took_s < seconds + BEYOND_S
        report = json.loads((out / "report.json").read_text()) if (out / "report.json").exists() else None
        print(f"{mistake or 'no mistake'}, {' '.join(arguments)}: {took_s:.1f} of {seconds} s")  # pytest -rP shows it
        return Ran(done.returncode, done.stderr + done.stdout + json.dumps(report), report)

    return ran


ON_THE_ORIGINAL = {
    "abort open": (3, "its process ended with SIGABRT while", "was opening the original on faulty"),
    "abort run": (3, "its process ended with SIGABRT", "was running the original on faulty"),
    "abort time_runs": (4, "its process ended with SIGABRT while", "was timing the original on faulty"),
    "hang open": (5, "error[backend-no-answer]", "was opening the original on faulty"),
    "hang run": (5, "error[backend-no-answer]", "was running the original on faulty"),
    "hang time_runs": (4, "many times what the original takes", "was timing the original on faulty"),
    "error open": (5, "ERR_0x80000008: the device was lost", "could not open the original on faulty"),
    "error run": (5, "ERR_0x80000008: the device was lost", "could not run the original on faulty"),
    "error time_runs": (4, "ERR_0x80000008: the device was lost", "could not time the original on faulty"),
}
"""By what happens and where: the status of the command, and what it says."""


def _some(mistakes, quick):
    """All of them for make test-faults; the others of make test take seconds until a limit ends them."""
    return [one if one in quick else pytest.param(one, marks=pytest.mark.faults) for one in mistakes]


@pytest.mark.parametrize("mistake", _some(ON_THE_ORIGINAL, ("abort open",)))
def test_what_the_device_does_to_the_original_is_named_within_the_seconds_of_the_run_also_warm(run, mistake):
    status, how, what = ON_THE_ORIGINAL[mistake]
    for _ in ("cold", "warm"):
        found = run(f"{mistake} original")
        assert found.status == status, found.told
        assert how in found.told
        assert what in found.told
        assert RELEASE in found.told
        assert f"{BACKEND} was" in found.told or "backend faulty could not" in found.told
        assert "--without PASS" not in found.told  # no pass is at fault
        assert "promised more" not in found.told  # no row is decided


ON_A_CANDIDATE = {
    "abort open": "its process ended with SIGABRT while {} was opening {}",
    "abort run": "while {} was running {}",
    "abort time_runs": "its process ended with SIGABRT while {} was timing {}",
    "hang open": "while {} was opening {}",
    "hang run": "while {} was running {}",
    "hang time_runs": "while {} was timing {}",
    "error open": "backend faulty could not open {1}: RuntimeError: ERR_0x80000008: the device was lost",
    "error run": "backend faulty could not run {1}: RuntimeError: ERR_0x80000008: the device was lost",
    "error time_runs": "backend faulty could not time {1}: RuntimeError: ERR_0x80000008: the device was lost",
}
"""By what happens and where: what the report says."""


@pytest.mark.parametrize("mistake", _some(ON_A_CANDIDATE, ("error open",)))
def test_what_the_device_does_to_a_candidate_ends_that_and_not_the_run_also_warm(run, mistake):
    for _ in ("cold", "warm"):
        found = run(f"{mistake} candidate")
        assert found.status == 0, found.told
        assert found.report["status"] == "unchanged"
        assert found.row("faulty.shrink")[0] in ("failed", "dropped", "skipped")
        said = ON_A_CANDIDATE[mistake].format(BACKEND, "the model after faulty.shrink on faulty")
        assert said in found.told


IN_A_PASS = {
    "abort apply": "its process ended with SIGABRT while {}",
    "hang apply": "while {}",
    "error apply": "RuntimeError: ERR_0x80000008: the device was lost",
}
"""By what happens while a pass is applied: what the run says."""

HOW_A_PASS_FAILS = {
    "abort": "its process ended with SIGABRT",
    "hang": "did not finish within",
    "error": "RuntimeError: ERR_0x80000008: the device was lost",
}
"""Words of a run for a pass that it cannot go on without."""


@pytest.mark.parametrize("mistake", _some(IN_A_PASS, ("abort apply",)))
@pytest.mark.parametrize(
    "named", [pytest.param((), marks=pytest.mark.faults), ("--with", "faulty.shrink")], ids=["unnamed", "named"]
)
def test_a_pass_that_fails_is_named_within_the_seconds_of_the_run_also_warm(run, mistake, named):
    """A run without a pass that was named has no result; what one that broke would have gained is not known."""
    said = IN_A_PASS[mistake].format(f"pass faulty.shrink ({RELEASE}) was being applied to the original")
    for _ in ("cold", "warm"):
        found = run(mistake, *named)
        assert found.status == (4 if named else 0 if mistake == "hang apply" else 1), found.told
        assert said in found.told
        assert RELEASE in found.told
        if named:
            assert "faulty.shrink was asked for, but it failed" in found.told


BEFORE_OPENING = {"inputs_for": "asked for the sizes of", "apply": "being applied to"}
"""By what a pass that fixes sizes is called for before the original is opened: how that is said."""


@pytest.mark.parametrize(
    "mistake", _some([f"{how} {where}" for where in BEFORE_OPENING for how in HOW_A_PASS_FAILS], ("abort inputs_for",))
)
def test_a_required_pass_that_fails_before_the_original_is_opened_is_named_within_the_seconds_of_the_run(run, mistake):
    how, _, where = mistake.partition(" ")
    for _ in ("cold", "warm"):
        found = run(mistake, target="faulty-batched", source="two-outputs.onnx")
        assert found.status == 4, found.told
        assert "error[pass-failed]" in found.told
        assert f"while pass faulty.fix-batch ({RELEASE}) was {BEFORE_OPENING[where]} the original" in found.told
        assert HOW_A_PASS_FAILS[how] in found.told


@pytest.mark.faults
def test_a_named_pass_that_sleeps_over_what_it_offers_is_named_within_the_seconds_of_the_run(run):
    found = run("hang candidates", "--with", "faulty.shrink")
    assert found.status == 4, found.told
    assert f"while pass faulty.shrink ({RELEASE}) was asked what it offers for the original" in found.told


LIMITED = {
    "hang open candidate": f"backend faulty-limited ({RELEASE}) was opening {{}} on faulty-limited",
    "hang run candidate": f"backend faulty-limited ({RELEASE}) was running {{}} on faulty-limited",
    "hang apply": f"pass faulty.shrink-in-time ({RELEASE}) was being applied to the original",
}
"""What hangs for more than the two seconds that its vendor says it may take."""


@pytest.mark.parametrize("mistake", _some(LIMITED, ("hang open candidate",)))
def test_a_limit_of_the_vendors_own_ends_a_call_that_hangs(run, mistake):
    found = run(mistake, target="faulty-limited")
    said = LIMITED[mistake].format("the model after faulty.shrink-in-time")
    status, reason = found.row("faulty.shrink-in-time")
    assert status == "failed"
    assert reason.startswith("took longer than 2 s, its plugin's own limit")
    assert reason.endswith(f"while {said}")


def test_a_pass_that_sleeps_over_what_it_offers_costs_its_own_plugin_and_both_rows_say_who(run):
    found = run("hang candidates")
    assert found.status == 0
    rows = [found.row(name) for name in ("faulty.shrink", "faulty.store-bytes")]
    assert [status for status, _ in rows] == ["skipped", "skipped"]
    assert any(f"({RELEASE}) proposed no candidate within" in reason for _, reason in rows)
    assert all(RELEASE in reason for _, reason in rows)


@pytest.mark.parametrize(
    ("target", "named"), [("faulty-batched", ()), ("faulty-fixed", ("--with", "faulty.fix-batch"))]
)
def test_a_dynamic_model_runs_on_a_device_with_fixed_sizes_where_a_pass_fixes_them(run, folder, target, named):
    found = run("", *named, target=target, source="two-outputs.onnx", seconds=ENOUGH)
    assert found.status == 0, found.told
    assert found.row("faulty.fix-batch")[0] == "kept"


@pytest.mark.parametrize("how", ["", pytest.param("nothing apply", marks=pytest.mark.faults)], ids=["asked", "applied"])
def test_a_required_pass_that_declines_has_nothing_to_do_and_nobody_is_said_to_have_asked_for_it(run, folder, how):
    models.fixed_mlp(folder)
    found = run(how, target="faulty-batched", source="fixed-mlp.onnx", seconds=ENOUGH)
    assert found.status == 0, found.told
    assert found.row("faulty.fix-batch") == ("not-applicable", "its sizes are fixed")
    assert "asked for" not in found.told


def test_a_required_pass_that_does_not_hold_is_required_and_not_asked_for(run):
    found = run("", target="faulty-required", source="two-outputs.onnx", seconds=ENOUGH)
    assert found.status == 4
    assert "faulty.break is required by the target, but it failed" in found.told
    assert "was asked for" not in found.told


MODULE = """
import pytest
from optim import Stage
from optim_testing import BackendConformance, PassConformance, models
from optim_faulty.backend import FIXED, TARGET, FaultyBackend
from optim_faulty.passes import FixBatch, StoreBytes


class Planted:
    mistake = ""

    @pytest.fixture(autouse=True)
    def _planted(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FAULTY", self.mistake)
        monkeypatch.setenv("FAULTY_DEVICE", str(tmp_path / "device"))


class TestBackend(Planted, BackendConformance):
    max_drift = 1e-5

    @pytest.fixture
    def backend_class(self):
        return FaultyBackend

    @pytest.fixture
    def target(self):
        return TARGET


class TestPass(Planted, PassConformance):
    max_drift = 0.5
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return StoreBytes

    @pytest.fixture
    def target(self):
        return TARGET

    @pytest.fixture
    def backend(self):
        return FaultyBackend()

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.mlp(tmp_path)


class TestFixBatch(TestPass):
    stage = Stage.FUSE

    @pytest.fixture
    def pass_class(self):
        return FixBatch

    @pytest.fixture
    def nothing_to_do(self, tmp_path):
        return models.fixed_mlp(tmp_path)

    @pytest.fixture
    def target(self):
        return FIXED
"""


@dataclass(frozen=True)
class Planted:
    """What finds a mistake.

    Attributes:
        kit: the test of the kit that fails.
        kit_says: what it says.
        run_says: what a run says of it; a mistake that fails or hangs is in the tables above.
        source: the model of that run.
        goal: of that run.
    """

    kit: str
    kit_says: str
    run_says: tuple[str, ...] = ()
    source: str = "two-outputs.onnx"
    goal: str = "latency"


OUTPUTS, TIMES = "TestBackend::test_its_outputs_are_the_models", "TestBackend::test_its_times_are_times"
CANDIDATES, CLOCK = "TestPass::test_its_candidates_are_its_options", "TestBackend::test_its_clock_is_that_of_the_wall"
ABORTED, HUNG = "its process ended with SIGABRT", "did not finish within 10 s"
CLOSING, APPLIED = "TestBackend::test_closing_leaves_nothing", "TestPass::test_it_fires"
COMPUTES = "TestBackend::test_it_computes_what_onnx_says"
DIFFERS = ("error[target-differs]", "compared with onnxruntime on the CPU on 8 samples, its drift is", RELEASE)

PLANTED = {
    "abort open": Planted(OUTPUTS, ABORTED),
    "abort run": Planted(OUTPUTS, ABORTED),
    "abort time_runs": Planted(TIMES, ABORTED),
    "hang open": Planted(OUTPUTS, HUNG),
    "hang run": Planted(OUTPUTS, HUNG),
    "hang time_runs": Planted(TIMES, HUNG),
    "hang candidates": Planted(CANDIDATES, HUNG),
    "error open": Planted(OUTPUTS, "ERR_0x80000008: the device was lost"),
    "error run": Planted(OUTPUTS, "ERR_0x80000008: the device was lost"),
    "error time_runs": Planted(TIMES, "ERR_0x80000008: the device was lost"),
    "swap run": Planted("TestBackend::test_it_runs_standard_models", "drift", DIFFERS),
    "noisy run": Planted(COMPUTES, "drift", DIFFERS),
    "half run": Planted(COMPUTES, "drift", DIFFERS),
    "behind run": Planted(
        "TestBackend::test_it_computes_the_same_after_several_runs",
        "drift",
        ("two runs on the same sample differ by", "backend faulty for outputs that arrive one run late", RELEASE),
    ),
    "fast clock": Planted(CLOCK, "one more run takes", (f"time_runs of {BACKEND} returned 0.0007 ms for a run",)),
    "slow clock": Planted(CLOCK, "that passed", (f"time_runs of {BACKEND} returned 750 ms for a run,",)),
    "keep threads": Planted(CLOSING, "threads"),
    "keep runtimes": Planted(CLOSING, "times 5 MB of memory"),
    "single open": Planted(
        "TestBackend::test_two_models_are_open_at_once_or_it_is_exclusive",
        "say exclusive = True on the backend",
        ("ERR_0x80000009: the device is taken", "a device for one model needs Backend.exclusive"),
        "negated.onnx",
    ),
    "abort apply": Planted(APPLIED, ABORTED),
    "hang apply": Planted(APPLIED, HUNG),
    "error apply": Planted(APPLIED, "ERR_0x80000008: the device was lost"),
    "wrong inputs_for": Planted(
        "TestFixBatch::test_its_sizes_are_those_that_the_result_takes",
        "optim synthesizes samples in sizes that it refuses",
    ),
    "edit applicable": Planted(
        "TestPass::test_it_leaves_its_input_alone",
        "it edited the graph of ir_to_read()",
        ("it edited the graph of ir_to_read()",),
    ),
    "cached run": Planted("TestBackend::test_it_computes_the_same_after_several_runs", "drift", DIFFERS),
    "reused run": Planted(
        "TestBackend::test_runs_leave_feeds_and_earlier_outputs_alone",
        "the next run changed the arrays that the last one returned",
    ),
    "first-row run": Planted(COMPUTES, "drift", DIFFERS),
    "dropped run": Planted(
        OUTPUTS, "a run returned nothing", ("backend faulty breaks the contract", "a run returned first, and", RELEASE)
    ),
    "random run": Planted(COMPUTES, "drift", ("two runs on the same sample differ by", RELEASE)),
    "exit run": Planted(
        OUTPUTS,
        "its process ended with exit status 0",
        ("its process ended with exit status 0", f"{BACKEND} was running the original on faulty"),
    ),
    "named open": Planted(
        "TestBackend::test_two_models_are_open_at_once_or_it_is_exclusive",
        "drift",
        ("error[target-differs]", "the device may have run another program", RELEASE),
        goal="size",
    ),
    "edit open": Planted(
        "TestBackend::test_it_can_be_closed_and_opened_again",
        "it wrote into the model's file",
        ("opening the original on faulty wrote into the model's file", RELEASE),
    ),
    "hang close": Planted(
        "TestBackend::test_it_can_be_closed_and_opened_again",
        HUNG,
        ("error[backend-no-answer]", f"{BACKEND} was about to close the original on faulty"),
    ),
    "hang limits": Planted(
        "TestBackend::test_its_limits_are_limits",
        HUNG,
        ("error[backend-no-answer]", f"{BACKEND} was about to say what it accepts"),
    ),
    "kernel clock": Planted(CLOCK, "one more run takes", (f"time_runs of {BACKEND} returned ",)),
    "late clock": Planted(CLOCK, "one more run takes", (f"time_runs of {BACKEND} returned ",)),
    "endless candidates": Planted(
        CANDIDATES, "more than 1000", ("candidates of faulty.store-bytes returned more than 1000",)
    ),
}
"""Every mistake, and what finds it."""

IN_THE_KIT = (
    "abort run",
    "swap run",
    "behind run",
    "kernel clock",
    "named open",
    "edit open",
    "keep threads",
    "edit applicable",
    "wrong inputs_for",
)
IN_A_RUN = ("named open", "behind run", "kernel clock", "dropped run")
"""Of make test; make test-faults tries all."""


@pytest.fixture(scope="module")
def kit(environment, tmp_path_factory, request):
    """What the kit says of each mistake that is tried, all in one process of pytest."""
    folder = tmp_path_factory.mktemp("kit")
    here = [one for one in request.session.items if one.path == request.path]
    tried = [one.callspec.params["mistake"] for one in here if "kit" in one.fixturenames]
    text, names = MODULE, {}
    for number, mistake in enumerate(tried):
        base, _, test = PLANTED[mistake].kit.partition("::")
        text += f"\n\nclass {base}{number}({base}):\n    mistake = {mistake!r}\n"
        text += "    seconds = 10.0\n" if mistake.startswith("hang") else ""
        names[mistake] = f"{base}{number}::{test}"
    (folder / "test_kit.py").write_text(text)
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "found.xml")
    done = environment.run(*command, *(f"test_kit.py::{name}" for name in names.values()), cwd=folder)
    assert done.returncode == 1, done.stdout
    cases: dict[str, str] = defaultdict(str)
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        test, _, _ = case.get("name").partition("[")
        cases[f"{case.get('classname').rpartition('.')[2]}::{test}"] += "".join(case.itertext())
    return {mistake: cases[name] for mistake, name in names.items()}


@pytest.mark.parametrize("mistake", _some(PLANTED, IN_THE_KIT))
def test_the_kit_finds_it_and_says_so_and_is_neither_killed_nor_kept_waiting(kit, mistake):
    assert PLANTED[mistake].kit_says in kit[mistake]


@pytest.mark.parametrize("mistake", _some([one for one in PLANTED if PLANTED[one].run_says], IN_A_RUN))
def test_a_run_finds_it_too_and_names_it(run, mistake):
    planted = PLANTED[mistake]
    found = run(
        mistake,
        "--max-drift",
        "0.5",
        "--goal",
        planted.goal,
        source=planted.source,
        seconds=SECONDS if "hang" in mistake else ENOUGH,
    )
    for said in planted.run_says:
        assert said in found.told


@pytest.mark.faults
def test_without_a_mistake_the_kit_finds_none(environment, tmp_path):
    (tmp_path / "test_kit.py").write_text(MODULE)
    done = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kit.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_device_without_a_mistake_is_said_to_be_right(run, tmp_path):
    found = run("", source="two-outputs.onnx", seconds=ENOUGH)
    assert found.status == 0, found.told
    said = r"he device itself drifts \d[^ ]* from onnxruntime on the CPU, on 8 samples"
    assert found.report["device"]["drift"] < 1e-4
    report = Report.model_validate(found.report)  # the environment has core alone, and its runs write no page
    assert all(re.search(said, text) for text in (render_html(report), model_card(report)))


@pytest.mark.parametrize(
    ("named", "products", "budget", "most_kept"),
    [
        ((), 20, "0.6", 15),
        pytest.param(("--with", "faulty.store-bytes"), 20, "0.6", 15, marks=pytest.mark.faults),
        pytest.param((), 52, "0.4", 45, marks=pytest.mark.faults),
        pytest.param(("--with", "faulty.store-bytes"), 52, "0.4", 45, marks=pytest.mark.faults),
    ],
    ids=["few", "few-named", "many", "many-named"],
)
def test_where_size_is_the_goal_a_pass_is_repaired_whether_it_was_named_or_not(
    run, folder, named, products, budget, most_kept
):
    from deep_model import write_deep

    write_deep(folder / "deep.onnx", products)
    found = run("", "--goal", "size", "--max-drift", budget, *named, source="deep.onnx", seconds=ENOUGH)
    assert found.status == 0, found.told
    rows = [step for step in found.report["steps"] if step["pass"] == "faulty.store-bytes"]
    kept = [step for step in rows if step["status"] == "kept"]
    assert [0 < len(step["options"]["keep"]) <= most_kept for step in kept] == [True]
    assert all(step["reason"] for step in rows)
