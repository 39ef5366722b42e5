"""JSON of unknown origin ends in a value or in one kind of error, and is bounded before it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from optim._engine import json_file
from optim._engine.json_file import read_json


def test_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, "é"]}', encoding="utf-8")
    assert read_json(path) == {"a": [1, "é"]}
    monkeypatch.setattr(json_file, "_MAX_BYTES", path.stat().st_size)
    assert read_json(path) == {"a": [1, "é"]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"9" * 5000, "digits"),
        (b" " * 2_000_000, "larger than 1 MiB"),
    ],
)
def test_what_is_wrong_with_it_is_a_value_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    monkeypatch.setattr(json_file, "_MAX_BYTES", 1 << 20)
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        read_json(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a file"):
        read_json(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "gone")
