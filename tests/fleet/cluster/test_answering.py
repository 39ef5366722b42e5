"""An address where no scheduler answers is named in a bounded time, and before anything is imported that takes long."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from optim._engine.api.request import require_run
from optim._engine.cli.main import main
from optim._engine.search.settings import RunSettings
from optim.errors import ExitStatus, OptimError
from optim_fleet.cluster import answering, connect
from optim_fleet.cluster.answering import require_listener, within


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "tcp://[::1]:9", "tcp://localhost:99999"]
)
def test_nobody_listens(address: str) -> None:
    with pytest.raises(OptimError, match=f"no scheduler answers at {address}".replace("[", r"\[")) as caught:
        require_listener(address)
    assert caught.value.reference == "cluster-unreachable" and caught.value.cause


def test_a_run_asks_before_it_imports_what_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("distributed", "optim_fleet.cluster.connect", "optim_fleet.cluster.fleet"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(OptimError, match="no scheduler answers"):
        require_run(RunSettings(tmp_path / "m.onnx", cluster="tcp://127.0.0.1:9"))


def test_a_batch_asks_before_it_imports_what_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs", "cluster"):
        monkeypatch.setitem(sys.modules, f"optim_fleet.batch.{name}", None)  # importing it fails
    (tmp_path / "m.onnx").write_bytes(b"x")
    (tmp_path / "r.toml").write_text('[matrix]\nsource = ["m.onnx"]\n')
    asked = ["batch", str(tmp_path / "r.toml"), "-o", str(tmp_path / "out"), "--cluster", "tcp://127.0.0.1:9"]
    assert main(asked) == ExitStatus.TARGET_UNAVAILABLE
    assert not (tmp_path / "out").exists()


def test_a_machine_that_never_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever hangs: looking up its name has no time limit of its own."""
    over = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *asked: over.wait(60))
    monkeypatch.setattr(answering, "LISTEN_S", 0.05)
    with pytest.raises(OptimError, match="no scheduler answers") as caught:
        require_listener("tls://10.0.0.1:8786")
    over.set()
    assert "within 0.05 s" in caught.value.cause


def test_somebody_listens_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask waits without end for the first word."""
    pytest.importorskip("distributed", reason="dask is not installed")
    monkeypatch.setattr(connect, "CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(OptimError, match="no scheduler answers"), connect.connected(address):
            pass


@pytest.mark.parametrize("cluster", ["", "local:2", "tcp://127.0.0.1", "tcp://10.0.0.1:8786", "package.module:made"])
def test_what_is_no_address_that_may_be_asked_is_left_alone(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *asked: pytest.fail("it was asked"))
    require_listener(cluster)


def test_what_comes_too_late_is_dropped() -> None:
    begin, dropped = threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, lambda: begin.wait(60), lambda made: dropped.set())
    assert not dropped.is_set()
    begin.set()
    assert dropped.wait(60)


def test_what_fails_fails() -> None:
    def refused() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(60, refused)
