from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "core" / "src" / "optim"


def test_the_picture_shows_the_folders_that_there_are() -> None:
    picture = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)[0]
    shown = set(re.findall(r"(?<![a-z_])([a-z_]+)/", picture)) - {"optim"}
    assert shown == {path.parent.name for path in SOURCE.rglob("*/__init__.py")}


def test_every_file_beside_the_folders_is_named() -> None:
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert [name for name in sorted(files) if f"`{name}`" not in PAGE] == []


def test_every_function_on_the_walk_is_there() -> None:
    walk = PAGE.partition("## The walk of one run")[2].partition("\n## ")[0]
    source = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    named = [name for name in re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)*)`", walk) if "." in name or "_" in name]
    assert len(named) > 20
    for name in named:
        *holders, last = name.split(".")
        pattern = rf"^\s*def {last}\(" if last.islower() or last.startswith("_") else rf"^class {last}\b"
        homes = [path for path, text in source.items() if last in text and re.search(pattern, text, re.MULTILINE)]
        holder = holders[-1] if holders else ""
        if holder and holder[0].isupper():
            homes = [path for path in homes if re.search(rf"^class {holder}\b", source[path], re.MULTILINE)]
        elif holder:
            homes = [path for path in homes if path.with_suffix("").parts[-len(holders) :] == tuple(holders)]
        assert homes, f"the walk names {name}"


def test_links_between_the_pages_lead_somewhere(made_pages: dict[str, str]) -> None:
    made = {(ROOT / "docs" / path).resolve() for path in made_pages}
    for page in {ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - made:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            aim = (page.parent / link).resolve()
            assert aim in made or aim.exists(), f"{page.name} links to {link}"


def test_files_that_the_pages_name_by_their_path_are_there() -> None:
    named = {
        path
        for page in (ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md"))
        for path in re.findall(r"`((?:core|plugins[\w-]*|benchmarks|docs|examples)/[\w./-]+)`", page.read_text("utf-8"))
    }
    assert len(named) > 10
    named.discard("benchmarks/RESULTS-gpu.md")  # what gpu.py is to write on a GPU
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_what_docstrings_refer_to_by_its_whole_name_is_there() -> None:
    source = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    modules = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): text
        for path, text in source.items()
    }
    named = {name for text in source.values() for name in re.findall(r":[a-z]+:`~?(optim\._engine[\w.]+)`", text)}
    assert len(named) > 10
    lost = []
    for name in sorted(named):
        home = next((name.rsplit(".", cut)[0] for cut in (0, 1, 2) if name.rsplit(".", cut)[0] in modules), "")
        inside = [part for part in name.removeprefix(home).split(".") if part]
        known = home and all(
            re.search(rf"\b(def|class) {part}\b|^\s*{part}\b", modules[home], re.MULTILINE) for part in inside
        )
        lost += [] if known else [name]
    assert lost == []
