"""Files and paths on their way between machines."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from optim.errors import OptimError
from optim.workplace import Done, Work
from optim_fleet.cluster import files, work
from optim_fleet.cluster.carrier import Carrier
from optim_fleet.cluster.exchange import Exchange
from optim_fleet.cluster.order import STORE, File, Order, Reply, WorkState, incoming, outgoing, store_names

CONTENT = bytes(range(256)) * 40
FILE = File("references/key/made/0.npz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "worker"))
    return tmp_path / "worker"


def bring(content: bytes, file: File = FILE) -> None:
    for offset in range(0, len(content), 4096):
        files.take(file.name, file.digest, "run", offset, content[offset : offset + 4096])
    asyncio.run(files.put(file.name, file.size_bytes, file.digest, "run"))


def test_a_file_comes_in_pieces_and_is_in_its_place_when_it_is_whole(worker: Path) -> None:
    files.take(FILE.name, FILE.digest, "run", 0, CONTENT[:100])
    assert not (worker / FILE.name).exists() and not files.is_there(FILE.name, FILE.size_bytes, FILE.digest)
    bring(CONTENT)
    assert (worker / FILE.name).read_bytes() == CONTENT
    assert files.is_there(FILE.name, FILE.size_bytes, FILE.digest)
    assert files.give(FILE.name, 256, 3) == CONTENT[256:259]


def test_a_damaged_file_is_refused_and_gone(worker: Path) -> None:
    with pytest.raises(ValueError, match="arrived damaged"):
        bring(CONTENT[:-1] + b"?")
    assert not (worker / FILE.name).exists() and not list((worker / "incoming").iterdir())


def test_no_file_is_put_outside_the_store(worker: Path) -> None:
    with pytest.raises(ValueError, match="not a file of the store"):
        bring(CONTENT, File("../victim", FILE.size_bytes, FILE.digest))
    assert not (worker.parent / "victim").exists()


def test_a_file_that_was_changed_in_place_is_not_there(worker: Path) -> None:
    bring(CONTENT)
    (worker / FILE.name).write_bytes(CONTENT[::-1])
    assert not files.is_there(FILE.name, FILE.size_bytes, FILE.digest)


def test_paths_of_one_store_are_those_of_another(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    said = {"model": {"path": str(here / "models" / "a.onnx")}, "store": str(here / "models"), "text": f"bad {here}/x"}
    sent = outgoing(said, here)
    assert str(here) not in str(sent)
    assert list(store_names(sent)) == ["models/a.onnx"]  # a shelf is no file, nor is a text
    assert incoming(sent, there)["model"]["path"] == str(there / "models" / "a.onnx")
    assert incoming(sent, here) == said


@pytest.mark.skipif(os.sep != "/", reason="paths of POSIX")
@pytest.mark.parametrize("elsewhere", ["/mnt/data/store/x", "../data/store/x", "~/data/store/x", "s3://data/store/x"])
def test_a_path_that_contains_the_store_s_stays_on_its_way(elsewhere: str) -> None:
    root = Path("/data/store")
    told = {"path": elsewhere, "said": f"{elsewhere} is not '/data/store/models/a.onnx' (/data/store/b)"}
    sent = outgoing(told, root)
    assert sent == {"path": elsewhere, "said": f"{elsewhere} is not '{STORE}models/a.onnx' ({STORE}b)"}
    assert incoming(sent, root) == told


@pytest.mark.parametrize(
    "name", ["models/../../x", "/etc/passwd", "C:/x/y", "models\\..\\..\\x", "models/.", "models", ""]
)
def test_a_name_that_leads_out_of_the_store_names_nothing(name: str, worker: Path) -> None:
    assert list(store_names([f"optim-store:///{name}"])) == []  # as an input of a stranger's model may be called
    with pytest.raises(ValueError, match="not a file of the store"):
        File(name, FILE.size_bytes, FILE.digest)
    with pytest.raises(ValueError, match="not a file of the store"):
        files.give(name, 0, 1)


def test_a_digest_is_nothing_else() -> None:
    with pytest.raises(ValueError, match="not a file of the store"):
        File(FILE.name, 1, "../victim")  # it is a file's name where files are exchanged


def test_a_run_deletes_what_it_was_filling_and_nothing_else(worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, filled = worker / "models" / "a.onnx", worker / "references" / "key" / ".made.tmp" / "feeds"
    kept.parent.mkdir(parents=True)
    kept.touch()
    monkeypatch.setattr(work, "work_here", lambda *asked: filled.mkdir() or Done({}))
    makes = ("references/key/.made.tmp/feeds", "models/none.onnx")
    order = Order(Work("m", {}, 1.0), (), makes, "run", "code", "active/none")
    assert work._done(order, worker, Reply(WorkState.DONE, "here", "host"), shared=False).state is WorkState.DONE
    assert filled.is_dir()
    asyncio.run(work.end_run("run"))
    assert kept.is_file() and filled.parent.parent.is_dir() and not filled.parent.exists()


def test_files_are_exchanged_at_a_url(tmp_path: Path) -> None:
    exchange = Exchange(f"file://{tmp_path / 'shared'}")
    exchange.require_usable()
    path = tmp_path / "here" / FILE.name
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert not exchange.fetch(FILE, tmp_path / "there")
    assert exchange.offer([FILE], tmp_path / "here") == len(CONTENT)
    assert exchange.offer([FILE], tmp_path / "here") == 0  # it is there
    assert exchange.fetch(FILE, tmp_path / "there")
    assert (tmp_path / "there" / FILE.name).read_bytes() == CONTENT
    (tmp_path / "shared" / FILE.digest).write_bytes(CONTENT[::-1])
    assert not exchange.fetch(FILE, tmp_path / "another")
    assert not (tmp_path / "another" / FILE.name).exists() and not (tmp_path / "shared" / FILE.digest).exists()


@pytest.mark.parametrize("url", ["memory://optim", "nonsense://x", "file:///proc/nowhere"])
def test_a_url_where_nothing_can_be_exchanged(url: str) -> None:
    with pytest.raises(OptimError) as caught:
        Exchange(url).require_usable()
    assert caught.value.reference == "bad-store-url"


class Bucket(MemoryFileSystem):
    """A bucket of some cloud, which may refuse."""

    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    refuses = False

    def exists(self, path: str, **options: object) -> bool:
        if self.refuses:
            raise PermissionError("403 Forbidden")
        return super().exists(path, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise AssertionError("a bucket was made")


def test_a_bucket_is_not_made_and_a_cloud_that_refuses_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Bucket()
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url: (bucket, "/bucket/optim"))
    exchange = Exchange("s3://bucket/optim")
    exchange.require_usable()
    path = tmp_path / FILE.name
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert exchange.offer([FILE], tmp_path) == len(CONTENT) and exchange.fetch(FILE, tmp_path / "there")
    bucket.refuses = True
    for ask in (lambda: exchange.offer([FILE], tmp_path), lambda: exchange.fetch(FILE, tmp_path)):
        with pytest.raises(OptimError, match="403 Forbidden") as caught:
            ask()
        assert caught.value.reference == "bad-store-url"


def test_what_several_jobs_lack_at_once_goes_to_a_worker_once(worker: Path, tmp_path: Path) -> None:
    root = tmp_path / "here"
    (root / FILE.name).parent.mkdir(parents=True)
    (root / FILE.name).write_bytes(CONTENT)

    class Here:
        def on(self, address: str, call: Callable[..., Any], *arguments: Any) -> Any:
            answer = call(*arguments)
            return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    carrier = Carrier(Here(), root, "run")  # type: ignore[arg-type]
    with ThreadPoolExecutor(4) as jobs:
        sent = list(jobs.map(lambda _: carrier.send(FILE, "worker"), range(4)))
    assert sorted(sent) == [False, False, False, True]
    assert (worker / FILE.name).read_bytes() == CONTENT
