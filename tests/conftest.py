"""For every test: races of tenths of seconds, and Ctrl-C as a person's shell has it.

Files are spread over processes (``--dist loadfile``): what is dear to make is a fixture of its file. All files of
torch are for one process: no other imports it, and what one file exports the next may use.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # hundreds of processes would compile all they import, each anew
    sys.dont_write_bytecode = False
if "numpy" not in sys.modules:  # threads of its library spin where they have no work
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from optim._engine.search.lane_costs import LaneCosts
from optim.jobs.seldom import put_off_what_is_seldom_needed

if "onnx_ir" not in sys.modules:  # also collecting garbage: it would take a sixth of an export by torch
    put_off_what_is_seldom_needed()

import onnxruntime
from counted_clock import counted_clock  # noqa: F401 - fixtures for tests of every folder
from counted_seconds import counted_seconds  # noqa: F401
from installed_plugin import let_all_workers_import
from jobs_here import jobs_here  # noqa: F401
from onnx import TensorProto, helper
from processors import as_avx2  # noqa: F401
from quick_exports import quick_exports  # noqa: F401
from waiting_threads import let_threads_wait

from optim._engine.plugins import guard
from optim._engine.search.explore.kernel_gains import KernelGains
from optim._engine.search.explore.recall import Recall

_TORCH = "tests/plugins/torch/"
_WITH_TORCH = (
    _TORCH,
    "tests/plugins/adapters/test_adapters.py",
    "tests/docs/test_python_page.py",
    "tests/examples/test_memory_decoder.py",
    "tests/qnn/test_qnn_source.py",
)
"""What imports torch, be it by peft: seconds in each process that does."""

_OWN = tempfile.TemporaryDirectory(prefix="optim-tests-")
"""Locks of each process: no test waits for the clock of another, and no figure of theirs is asserted.

Also its cache, emptied behind each file: a run adds up the sizes of all files of its cache, and the user's may have so
many that this takes 8 s.
"""

_OF_A_USER = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "OPTIM_DISABLE_PLUGINS", "OPTIM_PLUGIN_SECONDS")
"""What commands would print otherwise, or load: a person's shell may have it."""

_ENVIRONMENT: dict[str, str] = {}
"""Of every file when it begins."""


def pytest_configure() -> None:
    """Races take tenths of seconds: what is tested is what a search makes of them, and what differs does by factors.

    What one run found is nothing to the next one: a test of a search is the same after any other.

    A shell ignores Ctrl-C for what it starts in the background; tests of Ctrl-C start processes that must not.
    """
    LaneCosts.pace, LaneCosts.programs = 0.05, False
    let_threads_wait()
    KernelGains.measures = False
    Recall.is_on = False
    os.environ |= {"XDG_RUNTIME_DIR": _OWN.name, "OPTIM_CACHE_DIR": f"{_OWN.name}/cache"}
    for name in _OF_A_USER:
        os.environ.pop(name, None)
    let_all_workers_import()
    _ENVIRONMENT.update(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no process is left alone with it at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(_WITH_TORCH), item.path not in slow))


def pytest_collection_finish() -> None:
    """Every process collects every file: what torch takes to import, each would take.

    What was collected stays to the end: the garbage collector need not look at it again.
    """
    for heavy in ("torch", "distributed"):
        if heavy in sys.modules:
            raise pytest.UsageError(f"a test file imports {heavy} while it is collected: import it where it is used")
    _open_a_session()
    gc.collect()
    gc.freeze()


def _open_a_session() -> None:
    """Open a plain model first: the first session of a process decides whether its arithmetic flushes denormals."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "first", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What a test leaves open fails that test, and not one in which the garbage collector happens to come upon it.

    What outlives its file stays to the end; what libraries set in the environment does not: workers would inherit it.
    """
    yield
    left: list[BaseException] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda found: left.append(found.exc_value))
        if isinstance(item, pytest.Function):
            item.funcargs.clear()
        if nextitem is not None and nextitem.path == item.path:
            gc.collect(1)
        else:
            gc.collect()
            gc.freeze()
            shutil.rmtree(f"{_OWN.name}/cache", ignore_errors=True)
            for name in os.environ.keys() - _ENVIRONMENT.keys() - {"PYTEST_CURRENT_TEST"}:
                del os.environ[name]
            os.environ.update(_ENVIRONMENT)
    if guard.is_a_command():
        guard._process_is_ours.clear()
        left.append(AssertionError("it made this process a command's: for runs after it, time begins with the process"))
    if left:
        raise BaseExceptionGroup("it left something open", left)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file, and torch's as if they were one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _TORCH if nodeid.startswith(_WITH_TORCH) else super()._split_scope(nodeid)

    return ByFile(config, log)
