"""The site, the workflow and the packages agree with what is there; ``make docs`` and ``make dist`` build them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent for path in ROOT.glob("*/pyproject.toml"))


def test_every_page_is_in_the_navigation_and_on_the_first_page(all_pages: dict[str, str]) -> None:
    pages = {path for path in all_pages if "/" not in path}
    assert set(re.findall(r": ([\w-]+\.md)$", SITE, re.MULTILINE)) == pages
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", first)) == pages - {"index.md"}


def test_every_benchmark_that_can_be_run_is_on_their_page() -> None:
    folder = ROOT / "benchmarks"
    scripts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    page = (folder / "README.md").read_text(encoding="utf-8")
    started = {name for name in scripts for text in scripts.values() if f'"{name}"' in text}  # by another of them
    assert {"contender.py", "judge.py", "families.py"} <= started
    told = started | {name for name in scripts if re.search(rf"\b{name}\b", page)} | {"bench.py"}  # make bench
    assert sorted(name for name, text in scripts.items() if "if __name__ ==" in text and name not in told) == []
    assert "`make bench`" in page


def test_every_script_on_the_page_of_benchmarks_is_there() -> None:
    folder = ROOT / "benchmarks"
    page = (folder / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w/]+\.py)", page, re.MULTILINE))
    assert len(named) > 20
    assert sorted(name for name in named if not (folder / name).is_file()) == []


def test_the_workflow_runs_targets_of_the_makefile_and_nothing_else() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    steps = re.findall(r"run: (.*)", workflow)
    assert steps
    assert [step for step in steps if not re.fullmatch(r"make [\w-]+", step) or step.split()[1] not in targets] == []


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_a_package_has_its_version_from_the_one_place_and_its_license(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert (folder / project["tool"]["hatch"]["version"]["path"]).resolve() == ROOT / "VERSION"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "Typing :: Typed" in project["project"]["classifiers"]


HOW_TOS = (
    "hugging-face-to-cpu-server",
    "llm",
    "vision-browser",
    "deploy",
    "troubleshooting",
    "many-models",
    "diagnosis",
    "adapters",
    "publish-a-plugin",
    "volt",
    "vendors",
)
MOST_WORDS = 800
"""In one how-to, without its code: what a person reads before a task is done."""


@pytest.mark.parametrize("name", HOW_TOS)
def test_a_how_to_is_short(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$|^    [^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "\n## " in prose.rstrip().rpartition("\n\n")[0], "the code is left out, and nothing behind it"
    assert len(prose.split()) <= MOST_WORDS


def test_the_changelog_before_the_first_release_says_what_is_there() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert (ROOT / "VERSION").read_text(encoding="utf-8").strip() == "0.1.0"
    assert len(lines) <= 40
