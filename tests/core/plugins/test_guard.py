"""A plugin that hangs costs its own offers, and its name is said."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import pytest
from plugin_packages import GOOD, Site, site

from optim._engine.plugins import guard
from optim._engine.plugins.guard import TookTooLongError, limited
from optim._engine.plugins.registry import load_registry
from optim.errors import OptimError

__all__ = ["Site", "site"]

SLOW = {"OPTIM_PLUGIN_SECONDS": "0.5"}
HANGS_IN_A_HOOK = GOOD.replace("return [Shrink]", "import time\n    time.sleep(60)")
HANGS_IN_ITS_PROBE = GOOD.replace('device="a {plugin}"', "probe=lambda: __import__('time').sleep(60)")
HANGS_AND_CATCHES = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except Exception:\n        pass\n"


@pytest.mark.parametrize("source", ["import time\ntime.sleep(60)\n", HANGS_AND_CATCHES])
def test_one_that_hangs_at_its_import_is_listed_with_its_reason(site, monkeypatch, source):
    site.add("acme", GOOD)
    load_registry({"acme"})  # a busy machine may take longer for its import
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "1")
    site.add("hangs", source)
    states = {plugin.name: (str(plugin.state), plugin.reason) for plugin in load_registry({"hangs", "acme"}).plugins}
    assert states["hangs"] == ("failed", "loading did not end within 1 s: every command would wait for it")
    assert states["acme"][0] == "ok"


def test_one_that_hangs_in_a_hook_costs_that_offer(site, monkeypatch):
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "1")
    site.add("hangs", HANGS_IN_A_HOOK)
    registry = load_registry({"hangs"})
    assert registry.offers(registry.target("hangs-device")) == []
    assert [problem.reason for problem in registry.problems] == ["optim_fuse did not end within 1 s"]


def test_a_probe_that_hangs_is_a_reason_and_the_listing_goes_on(site):
    site.add("hangs", HANGS_IN_ITS_PROBE)
    done = site.run("targets", environment=SLOW)
    assert done.returncode == 0
    assert "its probe did not end within 0.5 s" in " ".join(done.stdout.split())


CONFIGURES = GOOD.replace('device="a {plugin}"', "configure=configure").replace(
    "OPTIM_HOOK_API", "{how}\n\nOPTIM_HOOK_API"
)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("__import__('time').sleep(60)", "configure did not end within 0.3 s"),
        ("values['chip']", "configure raised KeyError: 'chip'"),
        ("None", "configure returned None, not a Target"),
    ],
)
def test_settings_that_a_target_hangs_or_breaks_over_are_its_plugins(site, monkeypatch, body, cause):
    site.add("acme", CONFIGURES.replace("{how}", f"def configure(values):\n    return {body}"))
    registry = load_registry({"acme"})
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "0.3" if "sleep" in body else "60")
    with pytest.raises(OptimError) as caught:
        registry.target("acme-device:soc=1")
    error = caught.value
    assert (error.reference, error.cause, error.package) == ("target-settings-failed", cause, "optim-acme 1.0")


IDENTIFIES = CONFIGURES.replace("configure=configure", "identify=identify")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("__import__('time').sleep(60)", "identify did not end within 0.3 s"),
        ("{}['chip']", "identify raised KeyError: 'chip'"),
        ("None", "identify returned NoneType, not str"),
    ],
)
def test_a_target_that_hangs_or_breaks_over_its_device_is_its_plugins(site, monkeypatch, body, cause):
    site.add("acme", IDENTIFIES.replace("{how}", f"def identify():\n    return {body}"))
    target = load_registry({"acme"}).target("acme-device")
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "0.3" if "sleep" in body else "60")
    with pytest.raises(OptimError) as caught:
        _ = target.plain
    error = caught.value
    assert (error.reference, error.cause, error.package) == ("target-device-failed", cause, "optim-acme 1.0")


def test_a_target_that_breaks_over_the_memory_of_its_device_is_its_plugins(site):
    body = CONFIGURES.replace("configure=configure", "free_memory=free")
    site.add("acme", body.replace("{how}", "def free():\n    return 'plenty'"))
    look = load_registry({"acme"}).target("acme-device").free_memory
    with pytest.raises(OptimError, match="free_memory returned str, not int") as caught:
        look()
    assert caught.value.package == "optim-acme 1.0"


EXITS = [("__import__('sys').exit(0)", "SystemExit"), ("__import__('os')._exit(0)", "os._exit")]


@pytest.mark.parametrize(("body", "how"), EXITS)
def test_one_that_ends_the_program_costs_its_offers_and_no_command(site, body, how):
    site.add("acme", CONFIGURES.replace("configure=configure", "probe=find").replace("{how}", f"def find(): {body}"))
    site.add("leaves", GOOD.replace("return [Shrink]", body))
    registry = load_registry({"acme", "leaves"})
    why = f"would have ended the program ({how}, status 0)"
    assert registry.unavailable(registry.target("acme-device")) == f"its probe {why}"
    assert [offered.name for offered in registry.offers(registry.target("acme-device"))] == ["acme.shrink"]
    assert [problem.reason for problem in registry.problems] == [f"optim_fuse {why}"]


ENDS_ELSEWHERE = """
import os, threading
from optim._engine.plugins import guard
leave = os._exit
with guard.limited("acme", "loading"):
    refused = os._exit
    if (child := os.fork()) == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with guard.limited("acme", "inside"):
        pass
    assert os._exit == refused != leave
assert os._exit is leave
with guard.limited("acme", "loading"):
    threading.Thread(target=os._exit, args=(3,)).start()
    threading.Event().wait(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_fork_or_a_thread_of_a_plugin_ends_as_it_likes(site):
    done = site.python("-c", ENDS_ELSEWHERE)
    assert done.returncode == 3, done.stderr


UNINTERRUPTIBLE = """
import threading
from optim._engine.plugins import guard
guard._GRACE_S = 0.1
end, told = guard._end, threading.Event()
def told_of(*words):
    end(*words)
    told.set()
guard._end = told_of
def load():
    with guard.limited('hangs', 'loading'):
        assert told.wait(60)
    print('it went on')
threading.Thread(target=load).start()
"""
"""A thread is as a library is: no signal reaches what waits in it."""


def test_what_cannot_be_interrupted_ends_a_command_and_is_named(site):
    path = site.add("hangs", "")
    command = UNINTERRUPTIBLE.replace("def load", "guard.process_is_a_command()\ndef load")
    done = site.python("-c", command, environment=SLOW)
    assert path.exists()
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[plugin-hangs]: plugin hangs hangs" in done.stderr
    assert "optim --disable-plugin hangs" in done.stderr


def test_what_cannot_be_interrupted_is_named_and_leaves_the_program_of_a_user_alone(site):
    done = site.python("-c", UNINTERRUPTIBLE, environment=SLOW)
    assert (done.returncode, done.stdout.strip()) == (0, "it went on")
    assert "error[plugin-hangs]: plugin hangs hangs" in done.stderr


def test_the_clock_of_whoever_has_one_goes_on_afterwards(monkeypatch):
    import signal

    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "0.2")
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TookTooLongError), limited("acme", "loading"):
        time.sleep(5)
    assert signal.getsignal(signal.SIGALRM) is before
    assert not guard._watchdog._watched
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "no number")
    assert guard.limit_s() == guard._LIMIT_S


def test_one_thread_watches_all_that_plugins_do(monkeypatch):
    monkeypatch.setattr(guard, "_GRACE_S", 0.0)
    monkeypatch.setattr(guard, "_watchdog", guard._Watchdog())
    late, acted = [], threading.Event()
    monkeypatch.setattr(guard, "_end", lambda plugin, doing, seconds: (late.append(doing), acted.set()))
    before = threading.active_count()
    monkeypatch.setattr(guard, "_interrupting", lambda message, seconds: contextlib.nullcontext())
    for _ in range(50):
        with limited("acme", "in time"):
            pass
    assert threading.active_count() <= before + 1
    monkeypatch.setenv("OPTIM_PLUGIN_SECONDS", "0.1")  # sooner than what the thread sleeps for
    with limited("acme", "late"):
        acted.wait(200)
    assert late == ["late"]
