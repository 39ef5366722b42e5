"""Work in subprocesses: whatever becomes of one, its parent is told, and nothing is left running."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from installed_plugin import workers_import

from optim._engine.jobs.job import Job
from optim._engine.jobs.runner import Runner
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError
from optim.jobs import process
from optim.jobs.process import WorkerFailed, WorkerProcess, kill_all, run_job
from optim.jobs.resources import peak_memory_bytes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and process groups")

PATIENCE_S = 200.0
"""For what ends by itself, or is ended: only a hang takes it."""


@pytest.fixture(autouse=True)
def _jobs_importable(monkeypatch):
    workers_import(monkeypatch)


def do(action, timeout_s=PATIENCE_S, on_event=None, **arguments):
    answer, _ = run_job("unruly_job", {"action": action, "arguments": arguments}, timeout_s, on_event)
    return answer["said"]


def failure(action, **kwargs):
    with pytest.raises(WorkerFailed) as caught:
        do(action, **kwargs)
    return caught.value


def hung(action, **arguments):
    """What is said of a job that hangs, stopped after it has told where it is; and what it told."""
    with WorkerProcess("unruly_job", {"action": action, "arguments": arguments}) as worker:
        told = worker.receive(PATIENCE_S)
        with pytest.raises(WorkerFailed) as caught:
            worker.result(0.5)
    return caught.value, told


def is_running(pid):
    """Whether a process is alive; one that only waits to be collected is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone(pid, within_s=PATIENCE_S):
    deadline = time.monotonic() + within_s
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("exit", "its process ended with exit status 1 on sample 1 of feeds.npz: Bogus DQT index 14"),
        ("raise", "ValueError: no (at unruly_job.py:"),
        ("hang", "did not finish within 0.5 s on sample 1 of feeds.npz and was stopped"),
    ],
)
def test_a_worker_that_fails_on_a_sample_is_reported_with_its_name(how, says):
    failed = hung("end_on_a_sample", how=how)[0] if how == "hang" else failure("end_on_a_sample", how=how)
    assert says in failed.reason
    assert failed.doing == "sample 1 of feeds.npz"
    assert failed.doing in failed.reason


def test_a_process_that_is_no_fork_says_its_error():
    request = {"action": "end_on_a_sample", "arguments": {"how": "raise"}}
    with WorkerProcess("unruly_job", request, fresh=True) as worker:
        with pytest.raises(WorkerFailed, match="ValueError: no") as caught:
            worker.result(PATIENCE_S)
        assert "unruly_job.py" in caught.value.details


def test_a_sample_that_was_done_is_not_blamed():
    failed = failure("end_on_a_sample", how="later")
    assert failed.reason == "its process ended with exit status 1"


IN_THE_PLUGIN = " while backend one (optim-test 1.0) was opening the original"


@pytest.mark.parametrize(
    ("told", "kind", "says"),
    [
        ({"how": "abort"}, "crashed", f"its process ended with SIGABRT{IN_THE_PLUGIN}"),
        ({"how": "hang", "limit_s": 2}, "limit", f"took longer than 0.2 s, its plugin's own limit{IN_THE_PLUGIN}"),
    ],
)
def test_code_of_a_plugin_is_named_by_what_it_was_doing(told, kind, says):
    failed = failure("call_a_plugin", **told)
    assert (failed.kind, failed.reason) == (kind, says)
    assert failed.call.release == "optim-test 1.0"


def test_code_of_a_plugin_that_came_back_within_its_limit_is_not_blamed_for_what_follows():
    failed = failure("call_a_plugin", how="return", limit_s=1)
    assert (failed.call, failed.reason) == (None, "its process ended with SIGABRT")


def test_an_answer_comes_back_whole():
    assert do("echo", text='grüße\n"quoted" \u2028') == 'grüße\n"quoted" \u2028'


def test_a_megabyte_each_way_does_not_block():
    assert len(do("echo", text="x" * (1 << 20))) == 1 << 20


@pytest.mark.parametrize(
    ("action", "arguments", "says"),
    [
        ("abort", {}, "its process ended with SIGABRT"),
        ("segfault", {}, "its process ended with SIGSEGV"),
        ("leave_at_once", {"status": 0}, "its process ended with exit status 0"),
        ("leave_at_once", {"status": 7}, "its process ended with exit status 7"),
    ],
)
def test_a_crash_is_named(action, arguments, says):
    found = failure(action, **arguments)
    assert found.kind == "crashed"
    assert found.reason.startswith(says)


@pytest.mark.parametrize("counts", [[3, 3], [3, 4]], ids=["by hand", "for memory"])
def test_a_process_that_the_system_ends_for_memory_is_told_from_one_that_somebody_ends(counts, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "ended_for_memory", iter(counts).__next__)
    monkeypatch.setattr(process, "usable_memory_bytes", lambda: 2_000_000_000)
    starved = counts[0] < counts[1]
    job = Job("unruly_job", dict, dict)
    with pytest.raises(OptimError, match="x-failed") as caught:
        Runner(Store(tmp_path), print).need(
            job, {"action": "kill", "arguments": {}}, timeout_s=PATIENCE_S, reference="x-failed", doing="do x"
        )
    want = ", for lack of memory (there are 2 GB)"
    assert caught.value.cause == "its process ended with SIGKILL" + (want if starved else "")
    assert ("give more memory" in caught.value.fix) == starved


@pytest.mark.parametrize("status", [0, 3])
def test_sys_exit_in_a_job_is_a_failure_even_with_status_0(status):
    found = failure("leave", status=status)
    assert found.kind == "raised"
    assert found.reason.startswith(f"SystemExit: {status}")


def test_a_timeout_ends_the_whole_process_group_a_grandchild_too():
    found, told = hung("hang_with_a_child")
    assert found.kind == "timeout"
    assert "did not finish within" in found.reason
    assert gone(told["child"])
    assert gone(told["own"])


def test_the_timeout_is_of_the_whole_job_not_of_each_event(monkeypatch):
    """Its time is over by its first event; the reason gives the time that the job had."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    found = failure("hang_with_a_child", on_event=lambda event: setattr(clock, "seconds", PATIENCE_S + 1))
    assert found.reason.startswith("did not finish within 200 s and was stopped, with what it had left running: ")


def test_a_crash_is_seen_at_once_though_a_fork_holds_the_pipe_open():
    pids = []
    found = failure("abort_beside_a_fork", on_event=lambda event: pids.append(event["child"]))
    assert "SIGABRT" in found.reason
    assert gone(pids[0])


def test_noise_on_stdout_does_not_break_the_protocol():
    events = []
    assert do("shout", on_event=lambda event: events.append(event["event"])) == "quiet"
    assert events == ["before", "after"]


def test_a_job_that_reads_stdin_gets_nothing_and_the_protocol_goes_on():
    assert do("listen") == "nobody answers; the child read 0"


def test_an_exception_comes_back_with_its_type_and_place():
    found = failure("fail")
    assert found.kind == "raised"
    assert found.reason.startswith("KeyError: 'missing' (at unruly_job.py:")
    assert "Traceback" in found.details
    assert found.error is None
    assert found.is_defect


def test_want_of_memory_and_what_a_job_diagnosed_are_no_defects():
    starved = failure("want_memory")
    assert starved.kind == "starved"
    assert starved.reason.startswith("MemoryError: Unable to allocate")
    assert not starved.is_defect
    assert not failure("diagnose").is_defect
    assert failure("segfault").is_defect


def test_the_reason_is_one_line_and_never_empty():
    assert failure("fail_in_lines").reason.startswith("ValueError: first line (at unruly_job.py:")
    assert failure("fail_without_words").reason.startswith("ValueError: ValueError() (at unruly_job.py:")


def test_an_optim_error_comes_back_whole():
    error = failure("diagnose").error
    assert error is not None
    assert (error.reference, error.what, error.cause, error.fix, error.package, error.status) == (
        "sample-error",
        "what",
        "cause",
        "fix",
        "some-plugin 1.0",
        ExitStatus.TARGET_UNAVAILABLE,
    )


def test_a_full_disk_in_a_job_is_a_diagnosis():
    error = failure("no_space").error
    assert error is not None
    assert error.reference == "disk-full"
    assert "weights.data" in error.cause


def test_an_unknown_job_or_request_is_a_failure_with_its_reason():
    with pytest.raises(WorkerFailed, match="no_such_job"):
        run_job("no_such_job", {}, PATIENCE_S)
    with pytest.raises(WorkerFailed, match="ValidationError"):
        run_job("unruly_job", {"acting": "echo"}, PATIENCE_S)


def test_a_conversation_goes_to_and_fro():
    with WorkerProcess("unruly_job", {"action": "converse"}) as worker:
        for add, total in ((1, 1), (5, 6)):
            worker.send({"add": add})
            assert worker.receive(PATIENCE_S)["total"] == total
        worker.send({})
        assert worker.receive(PATIENCE_S)["result"] == {"said": "6"}


def test_a_worker_that_is_gone_shows_at_the_next_receive_not_at_send():
    with WorkerProcess("unruly_job", {"action": "leave_at_once", "arguments": {"status": 9}}) as worker:
        assert worker._process.wait() == 9
        worker.send({"add": 1})
        with pytest.raises(WorkerFailed, match="exit status 9"):
            worker.receive(PATIENCE_S)


def test_kill_all_ends_every_worker():
    workers = [WorkerProcess("unruly_job", {"action": "hang_with_a_child"}) for _ in range(2)]
    pids = [worker.receive(PATIENCE_S)["child"] for worker in workers]
    kill_all()
    assert all(gone(pid) for pid in pids)
    for worker in workers:
        worker.close()  # closing twice is harmless


def test_a_worker_dies_when_its_parent_is_killed():
    script = (
        "from optim.jobs.process import WorkerProcess\n"
        "worker = WorkerProcess('unruly_job', {'action': 'hang_with_a_child'})\n"
        "event = worker.receive(200.0)\n"
        "print(event['own'], event['child'], flush=True)\n"
        "worker.receive(600.0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_running(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
    assert all(gone(pid) for pid in pids)


def test_peak_memory_is_the_jobs_own_and_not_inherited_from_the_parent():
    ballast = bytearray(300 << 20)
    assert peak_memory_bytes() > len(ballast)
    requests = [{"action": "touch_memory", "arguments": {"mebibytes": size}} for size in (1, 100)]
    small, large = (run_job("unruly_job", request, PATIENCE_S)[1] for request in requests)
    assert 0 < small < 150 << 20
    assert 95 << 20 < large - small < 105 << 20
    del ballast


def test_numbers_that_json_lacks_pass_through():
    with WorkerProcess("unruly_job", {"action": "converse"}) as worker:
        worker.send({"add": math.inf})
        assert worker.receive(PATIENCE_S)["total"] == math.inf
