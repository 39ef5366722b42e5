"""What users rely on, as files: a change of a contract shows as a diff here.

``pytest tests/golden --write-golden`` writes ``files/`` anew; look at the diff of git, and commit it with the change.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installed_plugin import installed
from trace_file import read_trace

from golden.commands import MODELS, PLUGINS, TRACED, VERBS, Answered, ask, run, write_models
from golden.fixed import fixed_machine
from golden.normal import normal, normal_json
from optim._engine.plugins.discovery import installed_names

pytestmark = pytest.mark.slow

FILES, TRACES = (Path(__file__).with_name(name) for name in ("files", "traces"))
_REWRITE = "if that is meant: pytest tests/golden --write-golden"
OF_A_RUN = ("report.json", "run.json", "session.json", "recipe.lock.toml", "load.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("golden")
    with installed(folder, "timed_plugin", "lossy_plugin"), fixed_machine() as patch:
        patch.setenv("OPTIM_DISABLE_PLUGINS", ",".join(sorted(set(installed_names()) - {*PLUGINS})))
        for name, value in (("COLUMNS", "80"), ("TERM", "dumb")):
            patch.setenv(name, value)
        patch.chdir(folder)
        write_models(folder)
        yield folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Answered]:
    return {name: run(name) for name in MODELS}


@pytest.fixture
def hold(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A function that compares files with those of a folder of ``files/``, or writes them."""

    def compare(name: str, made: dict[str, str]) -> None:
        kept = FILES / name
        if request.config.getoption("--write-golden"):
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            for file, text in made.items():
                (kept / file).write_text(text, encoding="utf-8")
        there = {path.name: path.read_text(encoding="utf-8") for path in kept.iterdir()} if kept.is_dir() else {}
        lines = [
            line
            for file in sorted(there.keys() | made.keys())
            for line in difflib.unified_diff(
                there.get(file, "").splitlines(),
                made.get(file, "").splitlines(),
                f"tests/golden/files/{name}/{file}",
                "now",
                lineterm="",
            )
        ]
        if lines:
            pytest.fail("\n".join([*lines, _REWRITE]), pytrace=False)

    return compare


@pytest.mark.parametrize("name", TRACED)
def test_a_trace_of_each_run_is_kept(name, folder, runs, request):
    if request.config.getoption("--write-golden"):
        TRACES.mkdir(exist_ok=True)
        shutil.copyfile(folder / f"{name}.trace", TRACES / f"{name}.trace")
    made, kept = read_trace(folder / f"{name}.trace"), read_trace(TRACES / f"{name}.trace")
    assert [one["name"] for one in made.actions] == [one["name"] for one in kept.actions], _REWRITE


@pytest.mark.parametrize("name", MODELS)
def test_a_run_leaves_what_it_left(name, folder, runs, hold):
    answered, here = runs[name], str(folder)
    made = {"run.txt": normal(f"exit status {answered.status}\n{answered.out}--- stderr\n{answered.err}", here)}
    for file in OF_A_RUN:
        path = folder / f"{name}-optim" / file
        if path.is_file():
            made[f"{file}.txt"] = (normal_json if path.suffix == ".json" else normal)(path.read_text(), here)
    hold(name, made)


def test_every_verb_prints_the_json_it_printed(folder, runs, hold):
    here, made, statuses = str(folder), {}, []
    for verb, words in VERBS.items():
        answered = ask(verb)
        made[f"{verb}.json.txt"] = normal_json(answered.out, here) if answered.out.strip() else ""
        statuses.append(f"{answered.status} optim {' '.join(words)} --json")
    hold("verbs", {**made, "statuses.txt": normal("\n".join(statuses) + "\n", here)})
