"""Tests of the kits, handed to a process of their own: the side of pytest."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal

import pytest

from optim.engine.testing import WorkerProcess
from optim.jobs import WorkerFailed
from optim_testing import kit_job
from optim_testing.kit import Kit

_COLLECT_S = 300.0
"""For a process to start and to collect its file: it only ends one that hangs."""

_NOT_ITS_OWN = ("numprocesses", "maxprocesses", "tx", "rsyncdir", "px", "looponfail", "file_or_dir", "xmlpath")
"""Options of the command line that are not for a process that runs one file."""

_ALREADY_IMPORTED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
"""The process is one of optim's, so optim is imported there before pytest is."""

_WHERE_IT_DIED = "Current thread"
"""Begins the last frames that pytest's faulthandler writes."""

_PLAIN = (str, int, float, bool, type(None))


class KitProcess:
    """The process for the tests of one file; a new one after one that ended.

    Args:
        config: of pytest.
        file: with the tests.
    """

    def __init__(self, config: pytest.Config, file: str) -> None:
        self.file = file
        self._folder = tempfile.TemporaryDirectory(prefix="optim-kit-")
        self._request = kit_job.Request(file, _options(config, self._folder.name), tuple(sys.path))
        self._worker: WorkerProcess | None = None

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run one test there, and have what came of it reported as if it had run here."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began, reported = time.monotonic(), list[str]()
        try:
            for report in self._reports(item, nextitem):
                reported.append(str(report.when))
                item.ihook.pytest_runtest_logreport(report=report)
        except WorkerFailed as failed:
            self._end()
            for report in _failed(item, failed, reported, time.monotonic() - began):
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _reports(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.TestReport]:
        """What comes of a test, as it comes.

        Raises:
            WorkerFailed: the process ended, or the test took too long.
        """
        seconds = float(item.cls.seconds)  # type: ignore[attr-defined]
        end = time.monotonic() + seconds + (_COLLECT_S if self._worker is None else 0.0)
        if self._worker is None:
            self._worker = kit_job.JOB.start(self._request)
        beside = nextitem.nodeid if nextitem is not None and str(nextitem.path) == self.file else ""
        self._worker.send({"test": item.nodeid, "next": beside})
        while (message := self._worker.receive(end - time.monotonic(), of_s=seconds)).get("event") != kit_job.DONE:
            if message.get("event") == kit_job.BEGINS:
                end = time.monotonic() + seconds
            elif message.get("event") == kit_job.REPORT:
                yield _report(item, message["report"])
            else:
                raise WorkerFailed("its process did not collect it: it has another name each time", "protocol")

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """End it, and remove what its tests wrote."""
        self._end()
        self._folder.cleanup()


def is_of_kit(item: pytest.Item) -> bool:
    """Whether a test is one that a kit brings, or that an author added to its class."""
    kind = getattr(item, "cls", None)
    return isinstance(kind, type) and issubclass(kind, Kit)


def _options(config: pytest.Config, folder: str) -> dict[str, Any]:
    """What the command line said, as far as it is for a process that runs the tests of one file into ``folder``."""
    found = {name: value for name, value in vars(config.option).items() if name not in _NOT_ITS_OWN}
    options = {name: value for name, value in found.items() if _is_plain(value)}
    return {
        **options,
        "basetemp": f"{folder}/of-tests",
        "rootdir": str(config.rootpath),
        "inifilename": str(config.inipath) if config.inipath else None,
        "plugins": [*options.get("plugins", ()), "no:terminal"],
        "pythonwarnings": [*(options.get("pythonwarnings") or ()), _ALREADY_IMPORTED],
        "capture": "fd",
        "dist": "no",
        "maxfail": 0,
        "lf": False,
        "failedfirst": False,
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _report(item: pytest.Item, data: dict[str, Any]) -> pytest.TestReport:
    """What the process said of a test, as pytest's own; JSON knows no tuples, and pytest looks for two."""
    for name in ("longrepr", "location"):
        if isinstance(data.get(name), list):
            data[name] = tuple(data[name])
    report: pytest.TestReport = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
    return report


def _is_not_of_pytest(line: str) -> bool:
    return f"{os.sep}_pytest{os.sep}" not in line


def _failed(item: pytest.Item, failed: WorkerFailed, reported: list[str], seconds: float) -> list[pytest.TestReport]:
    """What is reported of a test whose process ended: where it was, and that it is over."""
    when: Literal["setup", "call", "teardown"] = "setup"
    if reported:
        when = "teardown" if "call" in reported else "call"
    reason = failed.reason.partition(": ")[0] if failed.kind == "crashed" else failed.reason
    text = f"{item.nodeid}: {reason}"
    if failed.kind == "timeout":
        text += f"\nsay seconds = ... on {item.cls.__name__} to give its tests more"  # type: ignore[attr-defined]
    where = failed.details[max(0, failed.details.rfind(_WHERE_IT_DIED)) :].strip()
    text += "".join(f"\n{line}" for line in takewhile(_is_not_of_pytest, where.splitlines()))
    known: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
    broken = pytest.TestReport(item.nodeid, item.location, known, "failed", text, when, duration=seconds)
    over = pytest.TestReport(item.nodeid, item.location, known, "passed", None, "teardown")
    return [broken] if when == "teardown" else [broken, over]
