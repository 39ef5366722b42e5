"""A world for each case; at the end, how many cases there were by group."""

from __future__ import annotations

from collections import Counter

import pytest
from world import SHARED, World


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory):
    """A place that pytest removes in time, however this process ends."""
    SHARED[:] = [tmp_path_factory.mktemp("shared")]


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Cases by group: what ran of this folder, whatever became of it."""
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            path, _, test = report.nodeid.partition("::")
            if path.startswith("tests/faults/") and "[" in test:
                counts[path.removeprefix("tests/faults/test_").removesuffix(".py")] += 1
    if counts:
        parts = ", ".join(f"{count} {group.replace('_', ' ')}" for group, count in sorted(counts.items()))
        terminalreporter.write_line(f"cases of faults: {sum(counts.values())} ({parts})")
