"""The cache on disk: atomic, capped, and never cleared under a run's feet."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx_ir as ir
import pytest
from timed_models import write_network

from optim._engine.graphs.ingest import ingest
from optim._engine.store import Store, cache_key
from optim.errors import OptimError
from optim.folders import cache_folder, data_folder
from optim.onnx.data_files import keep_by_digest
from optim.onnx.files import is_whole, save_in_store

HOLDER = """
import sys, time
from pathlib import Path
from optim._engine.store import Store
with Store(Path(sys.argv[1])).in_use():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


@pytest.fixture
def other_run(store):
    """Another process in the middle of a run."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(store.root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def model_file(store, name, size=1000, age_s=0.0):
    path = store.models / name
    path.write_bytes(b"x" * size)
    used = time.time() - age_s
    os.utime(path, (used, used))
    return path


def leftovers(store):
    return list(store.root.rglob("*.tmp"))


def test_what_was_written_is_read_and_what_was_not_is_none(store):
    store.write("steps", "key", {"a": [1, None, float("inf")]})
    assert store.read("steps", "key", dict) == {"a": [1, None, float("inf")]}
    assert store.read("steps", "other", dict) is None
    assert Store(store.root).read("steps", "key", dict) == {"a": [1, None, float("inf")]}
    assert leftovers(store) == []


@pytest.fixture
def heard():
    """What the cache says, heard at its own log: libraries that other tests import may set up those above it."""
    lines, log = [], logging.getLogger("optim.store")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log.addHandler(handler)
    yield lines
    log.removeHandler(handler)


@pytest.mark.parametrize("damage", [b"", b'{"a": ', b"\xff\xfe", b"[" * 100_000], ids=["empty", "cut", "bytes", "deep"])
def test_a_damaged_entry_is_dropped_and_named(store, heard, damage):
    store.write("steps", "key", {"a": 1})
    path = store.root / "steps" / "key.json"
    path.write_bytes(damage)
    assert store.read("steps", "key", dict) is None
    assert not path.exists()
    assert [line for line in heard if str(path) in line]


def test_a_bad_byte_in_the_record_of_a_run_spoils_no_later_run(store, family):
    graph = next(store.models.glob("*.onnx"))
    (store.root / "runs" / "earlier.json").write_bytes(b"\xff" + graph.name.encode())
    with store.in_use():
        store.keep_only({graph}, set())
    assert graph.exists()  # whatever else the record says, it names this one


def test_what_cannot_be_written_leaves_the_old_entry(store):
    store.write("steps", "key", {"a": 1})
    with pytest.raises(TypeError):
        store.write("steps", "key", {"a": object()})
    assert store.read("steps", "key", dict) == {"a": 1}
    assert leftovers(store) == []


def test_a_folder_is_there_whole_or_not_at_all(store):
    def fail(folder):
        (folder / "half").write_text("half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        store.folder("feeds", "key", fail)
    assert not (store.root / "feeds" / "key").exists()
    assert leftovers(store) == []
    folder = store.folder("feeds", "key", lambda path: (path / "whole").write_text("whole"))
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("whole", "whole")]
    assert store.folder("feeds", "key", fail) == folder


def test_a_record_that_another_process_reads_is_replaced_when_it_has_read(store, monkeypatch):
    """As Windows has it: a file that is open is not replaced."""
    replace, refused = os.replace, []

    def once_it_was_read(temporary, path):
        if len(refused) < 2:
            refused.append(path)
            raise PermissionError(13, "Access is denied", str(path))
        replace(temporary, path)

    monkeypatch.setattr("optim._engine.store._TRIES", 5)
    monkeypatch.setattr(os, "replace", once_it_was_read)
    store.write("steps", "key", [1])
    assert store.read("steps", "key", list[int]) == [1]
    assert len(refused) == 2


def test_two_that_make_the_same_folder_both_get_it(store):
    def make(folder):
        (folder / "inner").write_text("first")
        store.folder("feeds", "key", lambda other: (other / "inner").write_text("second"))

    folder = store.folder("feeds", "key", make)
    assert (folder / "inner").read_text() == "second"
    assert leftovers(store) == []


def test_a_file_whose_content_is_there_under_its_name_is_not_needed_again(tmp_path, monkeypatch):
    def refuse(temporary, path):
        raise PermissionError(13, "Access is denied", str(path))

    monkeypatch.setattr(os, "replace", refuse)
    temporary, final = tmp_path / "new", tmp_path / "digest.data"
    temporary.write_bytes(b"content")
    with pytest.raises(PermissionError):
        keep_by_digest(temporary, final)
    final.write_bytes(b"content")
    keep_by_digest(temporary, final)


def test_prune_deletes_what_was_used_longest_ago_until_the_cap_holds(store):
    files = [model_file(store, f"{age}.data", 1000, age) for age in (40, 30, 20, 10)]
    assert store.prune(2500) == (2, 2000)
    assert [file.exists() for file in files] == [False, False, True, True]
    assert store.prune(2500) == (0, 0)


def test_reading_an_entry_makes_it_young(store):
    for key in ("old", "young"):
        store.write("steps", key, {"filler": "x" * 1000})
    os.utime(store.root / "steps" / "old.json", (1, 1))
    os.utime(store.root / "steps" / "young.json", (2, 2))
    store.read("steps", "old", dict)
    store.prune(1500)
    assert store.read("steps", "young", dict) is None
    assert store.read("steps", "old", dict) is not None


def test_prune_to_nothing_empties_every_shelf_and_what_killed_runs_left(store):
    model_file(store, "a.onnx")
    model_file(store, ".half.tmp")
    store.write("runs", "key", {})
    store.folder("references", "key", lambda path: (path / "a").write_text("a"))
    (store.root / "feeds" / ".abc.tmp").mkdir()
    (store.root / "scratch-abc").mkdir()
    for shelf in ("experience", "packed", "downloads"):
        store.folder(shelf, "key", lambda path: (path / "a").write_text("a"))
    store.prune(0)
    assert [usage.entries for usage in store.usage()] == [0] * 8
    assert leftovers(store) == []
    assert not (store.root / "scratch-abc").exists()
    store.write("runs", "key", {})


def test_usage_counts_entries_and_bytes_and_nothing_unfinished(store):
    model_file(store, "a.onnx", 100)
    model_file(store, ".half.tmp", 5000)
    store.folder("feeds", "key", lambda path: (path / "a").write_bytes(b"12345"))
    usage = {one.shelf: (one.entries, one.size_bytes) for one in store.usage()}
    assert usage["models"] == (1, 100)
    assert usage["feeds"] == (1, 5)
    assert usage["steps"] == (0, 0)


def test_nothing_is_pruned_while_a_run_is_under_way(store, other_run):
    path = model_file(store, "a.onnx")
    with pytest.raises(OptimError) as caught:
        store.prune(0)
    assert caught.value.reference == "cache-in-use"
    assert path.exists()
    other_run.kill()
    other_run.wait()
    assert store.prune(0) == (1, 1000)


def test_a_run_that_was_killed_holds_nothing(store, other_run):
    assert store.others_active()
    other_run.send_signal(signal.SIGKILL)
    other_run.wait()
    assert not store.others_active()
    assert list((store.root / "active").iterdir()) == []


def test_a_runs_own_marker_does_not_count_as_another(store):
    with store.in_use():
        assert store.others_active()
        assert not store.others_active(besides=1)
    assert not store.others_active()
    assert list((store.root / "active").iterdir()) == []


@pytest.fixture
def family(store, tmp_path):
    """An original, and two models that share its weights; each has one tensor of its own."""
    original = ingest(write_network(tmp_path / "source.onnx"), store.models)
    children = []
    for factor in (2, 3):
        graph = original.ir()
        weight = graph.graph.initializers["useful_0_weight"]
        weight.const_value = ir.tensor(weight.const_value.numpy() * factor, name=weight.name)
        children.append(save_in_store(graph, store.models).path)
    return original.path, *children


def test_dropped_models_are_deleted_with_their_own_weights_and_kept_ones_stay(store, family):
    original, dropped, kept = family
    assert len(list(store.models.glob("*.data"))) == 3
    with store.in_use():
        store.keep_only({dropped, kept}, {original, kept})
    assert not dropped.exists()
    assert is_whole(original)
    assert is_whole(kept)
    assert len(list(store.models.glob("*.data"))) == 2


def test_what_a_finished_run_delivered_is_not_deleted_by_another_that_drops_it(store, family):
    original, result, _ = family
    store.write("runs", "key", {"result": {"path": str(result)}})
    with store.in_use():
        store.keep_only({result}, {original})
    assert is_whole(result)


def test_weights_that_any_other_graph_refers_to_stay(store, family):
    original, first, second = family
    with store.in_use():
        store.keep_only({original}, set())
    assert not original.exists()
    assert is_whole(first)
    assert is_whole(second)


def test_nothing_is_deleted_that_another_run_may_share(store, family, other_run):
    with store.in_use():
        store.keep_only(set(family), set())
    assert all(is_whole(path) for path in family)


def test_the_folder_is_the_one_of_the_environment_or_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "chosen"))
    assert Store().root == cache_folder() == tmp_path / "chosen"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTIM_CACHE_DIR", "relative")
    assert cache_folder() == Path.cwd() / "relative"
    monkeypatch.delenv("OPTIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder().name == "optim"


def test_a_cache_folder_that_cannot_be_used_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptimError) as caught:
        Store(tmp_path / "file" / "cache")
    assert caught.value.reference == "not-writable"
    assert "OPTIM_CACHE_DIR" in caught.value.fix


def test_a_cache_that_became_unusable_is_one_clear_error_too(tmp_path):
    store = Store(tmp_path / "cache")
    (store.root / "active").rmdir()
    (store.root / "active").touch()
    with pytest.raises(OptimError, match="active") as caught, store.in_use():
        pass
    assert caught.value.reference == "not-writable"


def test_a_run_that_fails_leaves_no_marker(tmp_path):
    store = Store(tmp_path / "cache")
    with pytest.raises(ZeroDivisionError), store.in_use():
        raise ZeroDivisionError
    assert not any((store.root / "active").iterdir())


def test_a_key_depends_on_every_part_and_not_on_the_order_of_names():
    assert cache_key("a", {"x": 1, "y": 2}) == cache_key("a", {"y": 2, "x": 1})
    keys = {cache_key(*parts) for parts in [("a",), ("a", None), ("b",), (["a"],), ("a", 1), ("a", "1"), ("a", True)]}
    assert len(keys) == 7
    assert json.dumps(cache_key("a"))[1:-1].isalnum()


def test_a_cache_beyond_its_cap_is_trimmed_after_a_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for i in range(4):
        store.write("steps", f"{i:064d}", "x" * 1000)
    store.trim(cap_bytes=100_000)
    assert sum(item.entries for item in store.usage()) == 4
    store.trim(cap_bytes=2100)
    assert sum(item.entries for item in store.usage()) == 2


def test_a_cache_is_not_trimmed_while_a_run_is_under_way(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("steps", "0" * 64, "x" * 1000)
    with store.in_use():
        store.trim(cap_bytes=0)
    assert sum(item.entries for item in store.usage()) == 1


@pytest.mark.skipif(os.name != "posix", reason="homes of users come from HOME and passwd")
@pytest.mark.parametrize("variable", ["OPTIM_CACHE_DIR", "OPTIM_DATA_DIR"])
@pytest.mark.parametrize("chosen", [None, "~/optim"])
def test_a_user_without_a_home_is_asked_for_a_folder(
    variable: str, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", variable):
        monkeypatch.delenv(name, raising=False)
    if chosen:
        monkeypatch.setenv(variable, chosen)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(OptimError, match="no-home") as caught:
        (cache_folder if variable == "OPTIM_CACHE_DIR" else data_folder)()
    assert variable in caught.value.fix
