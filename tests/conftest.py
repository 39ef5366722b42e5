"""How tests are spread over processes: those that share what is dear to make stay together, and those that time too."""

from __future__ import annotations

import signal

import pytest

from optim._engine.search.time_budget import TimeBudget

_WIDE = {"class", "module", "package", "session"}


def pytest_configure() -> None:
    """Races take tenths of seconds: what is tested is what a search makes of them, and what differs does by factors.

    A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C start processes that must not.
    """
    TimeBudget.pace = 0.05
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say of each test with whom it shares a process (``--dist loadgroup``); whoever shares nothing goes anywhere."""
    for item in items:
        group = "timing" if item.get_closest_marker("timing") else _shares(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


def _shares(item: pytest.Item) -> str:
    """Where the fixtures lie that this test shares with others; the widest place, e.g. a folder with a conftest."""
    known = getattr(item, "_fixtureinfo", None)
    found = [fixture for each in known.name2fixturedefs.values() for fixture in each] if known else []
    return min((fixture.baseid for fixture in found if fixture.scope in _WIDE and fixture.baseid), key=len, default="")
