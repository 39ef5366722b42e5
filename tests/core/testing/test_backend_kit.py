"""The kit for backends: a sound one passes every check, and each bad one fails the right one."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from installed_plugin import FOLDERS

from optim_testing import BackendConformance

BAD = {
    "opens-nothing": "its_outputs_are_the_models",
    "says-no-limits": "its_limits_are_limits",
    "takes-all": "it_refuses_what_it_cannot_run_with_a_reason",
    "says-elsewhere": "it_is_honest_about_where_nodes_ran",
    "says-nowhere": "it_is_honest_about_where_nodes_ran",
    "says-half": "it_is_honest_about_where_nodes_ran",
    "widens": "its_outputs_are_the_models",
    "renames": "its_outputs_are_the_models",
    "lists": "its_outputs_are_the_models",
    "flattens": "its_outputs_are_the_models",
    "nan": "it_computes_what_onnx_says",
    "wrong": "it_computes_what_onnx_says",
    "lost": "its_outputs_are_the_models",
    "no-time": "its_times_are_times",
    "after-close": "it_can_be_closed_and_opened_again",
    "buffers": "runs_leave_feeds_and_earlier_outputs_alone",
    "feeds": "runs_leave_feeds_and_earlier_outputs_alone",
    "strict": "it_leaves_out_what_the_model_does_not_take",
    "remembers": "a_run_lacks_what_it_is_not_fed",
    "one-at-a-time": "two_models_are_open_at_once_or_it_is_exclusive",
    "knows-its-process": "it_works_in_a_process_of_its_own",
    "Misnamed": "its_names_fit",
    "swaps": "it_runs_standard_models",
    "behind": "it_computes_the_same_after_several_runs",
    "wears": "it_computes_the_same_after_several_runs",
    "keeps-threads": "closing_leaves_nothing",
    "keeps-runtimes": "closing_leaves_nothing",
    "clock-fast": "its_clock_is_that_of_the_wall",
    "clock-slow": "its_clock_is_that_of_the_wall",
    "aborts": "its_outputs_are_the_models",
    "hangs": "its_outputs_are_the_models",
}
HEAVY = "importing_it_loads_nothing_heavy"
"""The module of the fixtures imports numpy: every class of it fails this one, as it must."""

MODULE = """
import pytest
import runtimes_plugin
from optim_testing import BackendConformance

class Base(BackendConformance):
    max_drift = 1e-5

    @pytest.fixture
    def target(self):
        return runtimes_plugin.target(self.name)

    @pytest.fixture
    def backend_class(self):
        return next(kind for kind in runtimes_plugin.KINDS if kind.name == self.name)
"""

CLASS = """
class Test{place}(Base):
    name = {name!r}
    seconds = {seconds}
"""

LIMIT_S = {"hangs": 2.0}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """By backend, the checks that failed."""
    folder = tmp_path_factory.mktemp("kit")
    names = ["own", *BAD]
    classes = [
        CLASS.format(place=place, name=name, seconds=LIMIT_S.get(name, 120.0)) for place, name in enumerate(names)
    ]
    (folder / "test_kit.py").write_text(MODULE + "".join(classes))
    checks = [f"test_kit.py::Test{names.index(name)}::test_{check}" for name, check in BAD.items()]
    path = os.pathsep.join([*map(str, FOLDERS), os.environ.get("PYTHONPATH", "")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=report.xml",
        "test_kit.py::Test0",
        *checks,
    ]
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=800)
    found: dict[str, set[str]] = {name: set() for name in names}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        if {child.tag for child in case} & {"failure", "error"}:
            place = int(case.get("classname", "").rpartition("Test")[2])
            found[names[place]].add(case.get("name", "").removeprefix("test_").partition("[")[0])
    return found


@pytest.mark.slow
def test_a_sound_backend_holds_every_promise(failed):
    assert failed["own"] == {HEAVY}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_backend_fails_the_right_check(failed, name):
    assert BAD[name] in failed[name]


def test_every_check_fails_for_some_backend():
    checks = {name.removeprefix("test_") for name in vars(BackendConformance) if name.startswith("test_")}
    assert checks == {*BAD.values(), HEAVY}
