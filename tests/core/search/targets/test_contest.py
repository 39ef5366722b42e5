"""Several targets in one run, by a clock that counts: who is searched, who wins, and what is said of the others."""

from __future__ import annotations

import pytest
from installed_plugin import installed
from timed_models import write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.runs.outcome import RunStatus
from optim._engine.search.settings import RunSettings
from optim._engine.store import Store

pytestmark = pytest.mark.usefixtures("jobs_here", "counted_clock")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contest")
    with installed(folder, "timed_plugin", "rivals_plugin"):
        write_network(folder / "model.onnx", {"a": 6, "b": 6, "c": 6})
        yield folder


@pytest.fixture(scope="module")
def run(folder):
    registry = load_registry()
    names = {offered.name for offered in registry.offers(registry.target("cpu"))}
    left_out = tuple(sorted(name for name in names if not name.startswith("timed.")))

    def make(target, **changes):
        asked = {"search_seconds": 60.0, "most_samples": 4, "without": left_out, **changes}
        said = []
        outcome = execute(
            RunSettings(folder / "model.onnx", target=target, **asked), load_registry(), Store(), said.append
        )
        return outcome, said

    return make


def test_x(run):
    outcome, said = run("cpu,swift,sluggish")
    print("\n".join(said))
    for row in outcome.targets:
        print(row)
    print(
        outcome.status,
        outcome.result.ratio,
        outcome.result.candidate.target,
        [s.pass_name for s in outcome.result.candidate.steps],
    )
    for p in outcome.points:
        print(p.number, p.candidate.target, p.measured.ratio, [s.pass_name for s in p.candidate.steps])
    assert outcome.status is RunStatus.IMPROVED
