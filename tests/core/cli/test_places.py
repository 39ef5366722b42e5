"""Files that commands are asked to write are looked at before anything takes time."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim._engine.cli.main import main
from optim.cli_kit.output import require_writable, write_text
from optim.errors import ExitStatus, OptimError
from optim_testing import models


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A name in a folder that is there, which leads into one that is not: also root cannot write it."""
    place = tmp_path / "to-nowhere.svg"
    place.symlink_to(tmp_path / "gone" / "file")
    return place


def test_what_is_there_stays_and_what_is_not_is_not_made(tmp_path: Path, link: Path) -> None:
    there, new = tmp_path / "there.csv", tmp_path / "new.csv"
    write_text(there, "näher\n")
    require_writable(there)
    require_writable(new)
    assert there.read_text(encoding="utf-8") == "näher\n"
    assert not new.exists()
    with pytest.raises(OptimError, match=r"to-nowhere\.svg cannot be written"):
        require_writable(link)


@pytest.mark.parametrize(
    "words",
    [
        ("blame", "{model}", "{model}", "--plot", "{link}"),
        ("sensitivity", "{model}", "--as", "int8", "--plot", "{link}"),
        ("bench", "{model}", "--csv", "{link}"),
        ("reduce", "{model}", "--while", "false", "-o", "{link}"),
    ],
    ids=lambda words: words[0],
)
def test_a_verb_refuses_it_before_it_begins(words, tmp_path, link, capsys) -> None:
    model = models.mlp(tmp_path)
    assert main([word.format(model=model, link=link) for word in words]) == ExitStatus.USAGE
    err = capsys.readouterr().err
    assert err.startswith("error[not-writable]: ")
    assert "running the original" not in err
