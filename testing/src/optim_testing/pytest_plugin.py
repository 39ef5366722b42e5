"""What pytest loads where optim-testing is: asserts of a kit say what they compared, and its tests may hang."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from optim.engine.testing import is_worker

if TYPE_CHECKING:
    from optim_testing.kit_process import KitProcess as _KitProcess

pytest.register_assert_rewrite("optim_testing.kits")

_PROCESS: pytest.StashKey[_KitProcess] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a process of their own run the tests of a kit; all others run as ever."""
    if "optim_testing.kit" not in sys.modules or is_worker() or _is_followed(item.config):
        return None
    from optim_testing.kit_process import KitProcess, is_of_kit

    if not is_of_kit(item):
        return None
    known = item.config.stash.get(_PROCESS, None)
    if known is None or known.file != str(item.path):
        _end(item.config)
        known = item.config.stash[_PROCESS] = KitProcess(item.config, str(item.path))
    known.run(item, nextitem)
    item.session._setupstate.teardown_exact(nextitem)  # what a test before it left here for the next of its module
    return True


@pytest.hookimpl
def pytest_unconfigure(config: pytest.Config) -> None:
    """End what is still there."""
    _end(config)


def _is_followed(config: pytest.Config) -> bool:
    """Whether somebody looks on, in a debugger or at what is printed: that needs this process."""
    option = config.option
    return bool(option.usepdb or option.trace or option.capture == "no")


def _end(config: pytest.Config) -> None:
    if (known := config.stash.get(_PROCESS, None)) is not None:
        known.close()
        del config.stash[_PROCESS]
