"""The author's kit: good passes pass every check, and each bad one fails the right one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from installed_plugin import FOLDERS

from optim import Target
from optim._engine.plugins.discovery import HEAVY
from optim.onnx.backend import OnnxRuntimeBackend
from optim_testing import Trial, models

pytestmark = pytest.mark.slow

BAD = {
    "NeverFires": "it_fires",
    "SaysChanged": "it_fires",
    "DeclinesWithoutReason": "it_declines_with_a_reason",
    "MutatesInput": "it_leaves_its_input_alone",
    "NotIdempotent": "it_is_idempotent",
    "RenamesOutput": "it_keeps_inputs_outputs_and_opset",
    "RaisesOpset": "it_keeps_inputs_outputs_and_opset",
    "FreezesAdapters": "it_keeps_inputs_for_adapters",
    "FailsOnAdapters": "it_keeps_inputs_for_adapters",
    "InterfaceOfNobody": "it_keeps_inputs_outputs_and_opset",
    "Wrong": "it_computes_the_same_within_the_tolerance",
    "UndocumentedOption": "its_options_are_documented",
    "MisspeltOrder": "its_order_can_be_resolved",
    "BeforeAndAfter": "its_order_can_be_resolved",
    "NeverTheSame": "it_gives_the_same_twice",
    "KnowsItsProcess": "it_works_in_a_process_of_its_own",
    "ForeignCandidates": "its_candidates_are_its_options",
    "KeepsNothing": "what_it_can_keep_is_kept",
    "SharesTheLoss": "a_kept_node_has_the_weights_that_it_had",
    "BadName": "its_name_and_attributes_fit",
    "SecretTuner": "it_changes_session_settings_alone_if_it_says_so",
    "Heavy": "importing_it_loads_nothing_heavy",
    "FixesOtherSizes": "its_sizes_are_those_that_the_result_takes",
    "EditsShared": "it_leaves_its_input_alone",
    "EndlessCandidates": "its_candidates_are_its_options",
    "SleepingCandidates": "its_candidates_are_its_options",
}
ALSO = {
    "FixesOtherSizes": {"it_computes_the_same_within_the_tolerance", "it_keeps_inputs_for_adapters"},
    "EndlessCandidates": {"it_leaves_its_input_alone"},
    "RenamesOutput": {"it_computes_the_same_within_the_tolerance"},
    "InterfaceOfNobody": {"it_computes_the_same_within_the_tolerance"},
    "KeepsNothing": {"a_kept_node_has_the_weights_that_it_had"},
    "SaysChanged": {"it_changes_session_settings_alone_if_it_says_so"},
    "MutatesInput": {
        "it_works_in_a_process_of_its_own",
        "it_computes_the_same_within_the_tolerance",
        "it_gives_the_same_twice",
        "it_keeps_inputs_for_adapters",
    },
    "NeverTheSame": {"it_works_in_a_process_of_its_own", "it_is_idempotent"},
}
"""What one defect must break too: a renamed output cannot be compared."""

LOSSY = {"GoodLossy", "KeepsNothing", "SharesTheLoss"}

EXTRA = {
    "Tuner": "fires_on_everything = True",
    "FixesOtherSizes": "options = {'batch': 4}",
    "GoodSizes": "options = {'batch': 4}",
    "SleepingCandidates": "seconds = 5.0",
}

MODULE = """
import pytest
import conforming_passes
import heavy_pass
from optim_testing import PassConformance, models

class Mlp(PassConformance):
    max_drift = 1e-5

    @pytest.fixture
    def model_path(self, tmp_path):
        return str(models.mlp(tmp_path))
"""

CLASS = """
class Test{name}(Mlp):
    {extra}

    @pytest.fixture
    def pass_class(self):
        return {module}.{name}
"""

TOLERANCE = """
class TestTolerance{name}(Mlp):
    max_drift = {value}

    @pytest.fixture
    def pass_class(self):
        return conforming_passes.Good
"""

COUNTED = """
from pathlib import Path

class Counted(conforming_passes.Good):
    def apply(self, model, options, context):
        with Path(__file__).with_name(f"applied-{type(self).__name__}").open("a") as file:
            file.write("once\\n")
        return super().apply(model, options, context)

class Damaging(Counted):
    def apply(self, model, options, context):
        result = super().apply(model, options, context)
        model.path.write_bytes(model.path.read_bytes() + b"\\x00")
        return result

class TestCounted(Mlp):
    @pytest.fixture
    def pass_class(self):
        return Counted

class TestDamaging(Mlp):
    @pytest.fixture
    def pass_class(self):
        return Damaging
"""

ASKED = "(not TestTolerance or test_it_computes_the_same) and (not TestSleeping or test_its_candidates_are_its_options)"
"""Which tests of the module run: a class that has one mistake to show runs the one test that finds it."""

UNFINISHED = """
from optim_testing import PassConformance

class TestUnfinished(PassConformance):
    pass
"""


def outcomes(folder: Path, source: str) -> dict[str, dict[str, str]]:
    """By test class, the outcome of each check: passed, failed or skipped."""
    (folder / "test_kit.py").write_text(source)
    path = os.pathsep.join([*map(str, FOLDERS), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", "test_kit.py"]
    subprocess.run(
        [*command, "-k", ASKED],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=800,
    )
    found: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found.setdefault(case.get("classname", "").rpartition(".")[2], {})[case.get("name", "")] = outcome
    return found


TOLERANCES = {"None": "None", "Whole": "1", "All": "1.0", "Nothing": "0.0", "NotANumber": "float('nan')"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kit")


@pytest.fixture(scope="module")
def seen(folder):
    """All of them in one process: it takes seconds to start."""
    classes = []
    for name in (*BAD, "Good", "GoodLossy", "GoodSizes", "Tuner"):
        extra = EXTRA.get(name, "max_drift = 0.05" if name in LOSSY else "pass")
        module = "heavy_pass" if name == "Heavy" else "conforming_passes"
        classes.append(CLASS.format(name=name, extra=extra, module=module))
    classes += [TOLERANCE.format(name=name, value=value) for name, value in TOLERANCES.items()]
    return outcomes(folder, MODULE + COUNTED + UNFINISHED + "".join(classes))


def failed(seen, name):
    return {check.removeprefix("test_") for check, outcome in seen[f"Test{name}"].items() if outcome == "failed"}


@pytest.mark.parametrize("name", ["Good", "GoodLossy", "GoodSizes", "Tuner"])
def test_a_good_pass_holds_every_promise(seen, name):
    assert failed(seen, name) == set()
    assert sum(outcome == "passed" for outcome in seen[f"Test{name}"].values()) >= 12


@pytest.mark.parametrize("name", BAD)
def test_a_bad_pass_fails_the_right_check_and_no_other(seen, name):
    found = failed(seen, name)
    assert BAD[name] in found
    assert found <= {BAD[name], *ALSO.get(name, ())}


def test_every_check_fails_for_some_pass(seen):
    assert {check.removeprefix("test_") for check in seen["TestGood"]} == set(BAD.values())


@pytest.mark.parametrize(("name", "times"), [("Counted", range(3, 5)), ("Damaging", range(9, 20))])
def test_a_pass_is_applied_once_for_all_that_look_at_its_result_unless_it_damages_its_input(seen, folder, name, times):
    """The others: left alone and so the same twice, idempotent, with adapters; a process of its own counts here too."""
    assert f"Test{name}" in seen
    assert len((folder / f"applied-{name}").read_text().split()) in times


def test_a_class_without_its_fixtures_says_so(seen):
    assert set(seen["TestUnfinished"].values()) == {"failed"}


def test_a_tolerance_that_is_none_fails_the_comparison(seen):
    assert [name for name in TOLERANCES if failed(seen, f"Tolerance{name}")] == list(TOLERANCES)


def test_pytest_starts_without_anything_heavy_and_the_kits_asserts_say_what_they_compared(tmp_path):
    (tmp_path / "test_start.py").write_text(
        "import sys\n"
        f"def test_light():\n    assert [name for name in {HEAVY!r} if name in sys.modules] == []\n"
        "def test_rewritten():\n"
        "    from optim_testing.kits import passes\n    assert '@pytest_ar' in vars(passes)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_start.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stdout


class Cpu(OnnxRuntimeBackend):
    name = "onnxruntime"


@pytest.mark.parametrize("make", [models.identity, models.mlp, models.convnet, models.encoder])
def test_the_models_of_the_kit_run_on_feeds_of_several_sizes(make, tmp_path):
    target = Target("cpu", "onnxruntime", "CPUExecutionProvider")
    trial = Trial.of(make(tmp_path), tmp_path / "trial", target, Cpu())
    shapes = set()
    with trial.backend.open(trial.model, target) as session:
        for feeds in trial.feeds.iterate():
            shapes |= {output.shape for output in session.run(feeds).values()}
    assert len(shapes) > 1
