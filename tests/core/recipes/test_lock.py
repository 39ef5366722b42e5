from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from optim._engine.recipes.lock import (
    Lock,
    LockedFeeds,
    LockedPass,
    LockedResult,
    LockedSource,
    LockedTarget,
    header,
    load_recipe_or_lock,
    lock_text,
    write_lock,
)
from optim._engine.recipes.recipe import BudgetTable
from optim.errors import OptimError
from optim.model import SessionConfig

DIGEST = hashlib.sha256(b"x").hexdigest()


def a_lock() -> Lock:
    options = {"per_channel": True, "keep": ["node 'a'", 'b"c'], "limit": None, "nested": {"a.b": [1, 2.5]}}
    session = SessionConfig({"execution_mode": "ORT_PARALLEL", "intra_op_num_threads": 2}, {"session.x.y": "1"}, ("F",))
    return Lock(
        lock=header(),
        source=LockedSource(file_name="mödel.onnx", digest=DIGEST),
        target=LockedTarget(name="cpu", backend="onnxruntime", versions={"onnx": "1.23.2", "onnx-ir": "1.1.0"}),
        goal="latency",
        budget=BudgetTable(max_drift=0.05),
        feeds=LockedFeeds(digest=DIGEST, origin="synthesized from the graph", seed=7),
        passes=(
            LockedPass.of("ort.quantize-dynamic", "quantize", options, "optim-plugins", "0.1.0"),
            LockedPass.of("ort.tune-session", "tune", {}, "optim-plugins", "0.1.0"),
        ),
        session=session,
        result=LockedResult(model_digest=DIGEST, drift=0.0312, latency_ratio=0.46),
    )


def test_a_lock_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    write_lock(a_lock(), path)
    found = load_recipe_or_lock(path)
    assert isinstance(found, Lock)
    assert found == a_lock()
    assert lock_text(found) == path.read_text(encoding="utf-8")


def test_every_option_comes_back_none_among_them(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    write_lock(a_lock(), path)
    found = load_recipe_or_lock(path)
    assert isinstance(found, Lock)
    options = found.passes[0].all_options
    assert options["limit"] is None
    assert options["keep"] == ["node 'a'", 'b"c']
    assert options["nested"] == {"a.b": [1, 2.5]}
    assert [(named.name, named.options) for named in found.chain()] == [
        ("ort.quantize-dynamic", options),
        ("ort.tune-session", {}),
    ]


def test_a_lock_of_an_unchanged_model_has_no_passes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    lock = a_lock().model_copy(update={"passes": (), "session": SessionConfig(), "budget": BudgetTable(lossless=True)})
    write_lock(lock, path)
    assert load_recipe_or_lock(path) == lock


def test_a_lock_opens_with_how_to_use_it() -> None:
    lines = lock_text(a_lock()).splitlines()
    opening = [line for line in lines if line.startswith("#")]
    assert lines[: len(opening)] == opening
    assert any("optim run mödel.onnx --recipe recipe.lock.toml" in line for line in opening)


def test_a_lock_of_a_later_optim_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    path.write_text('[lock]\nversion = 2\nmade_by = "optim-core 9.0"\n[something]\nelse = 1\n')
    with pytest.raises(OptimError) as caught:
        load_recipe_or_lock(path)
    assert caught.value.reference == "lock-too-new"
    assert "optim-core 9.0" in caught.value.what


def test_a_key_that_only_informs_does_not_make_a_lock_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    path.write_text(lock_text(a_lock()) + "peak_memory_bytes = 3\n")
    assert load_recipe_or_lock(path) == a_lock()


def test_a_lock_with_a_missing_part_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock.toml"
    path.write_text(lock_text(a_lock()).replace("model_digest =", "digest ="))
    with pytest.raises(OptimError) as caught:
        load_recipe_or_lock(path)
    assert caught.value.reference == "bad-recipe"
    assert "result.model_digest" in caught.value.cause
