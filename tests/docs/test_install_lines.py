"""Every install line of a page or an error works from a clone: no name that is not ours on the public index."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("*/pyproject.toml"))
TEXTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("examples/**/*.md"),
    *(
        path
        for folder in PACKAGES
        for path in folder.glob("src/**/*")
        if path.suffix in {".py", ".j2", ".json", ".mjs"}
    ),
]
COMMAND = re.compile(r"\bpip install(?P<words>(?: +(?:--?[a-z-]+(?:=\S+)?|\\?\"[^\"]+\"|'[^']+'|[^\s`|;,()#&<\"']+))+)")


def projects() -> dict[str, dict]:
    return {
        folder.name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in PACKAGES
    }


def install_words() -> list[tuple[str, str]]:
    """Each word after ``pip install``, with the file that says it."""
    found = []
    for path in TEXTS:
        for command in COMMAND.finditer(path.read_text(encoding="utf-8")):
            words = re.findall(r"\\?\"[^\"]+\"|'[^']+'|\S+", command["words"])
            found += [(path.relative_to(ROOT).as_posix(), word.strip("\\\"'")) for word in words]
    return found


def test_no_line_installs_a_name_of_ours_from_an_index() -> None:
    ours = {project["name"] for project in projects().values()} | {"optim"}
    names = [(path, word) for path, word in install_words() if re.match(r"[A-Za-z0-9]", word)]
    assert len(names) > 10
    wrong = [
        (path, word)
        for path, word in names
        if re.split(r"[\[<>=!~ ;]", word)[0] in ours or re.match("optim-plugin", word)
    ]
    assert wrong == []


def test_folders_and_extras_that_a_line_names_are_there() -> None:
    known = projects()
    wrong, seen = [], set()
    for path, word in install_words():
        if named := re.fullmatch(r"\./((?:core|plugins|testing)[\w-]*)(?:\[([\w,]+)\])?", word):
            folder, extras = named[1], set((named[2] or "").split(",")) - {""}
            seen |= extras
            if folder not in known or not extras <= set(known[folder].get("optional-dependencies", {})):
                wrong.append((path, word))
    assert wrong == []
    assert {"cpu", "gpu", "hub", "torch", "nncf"} <= seen


def test_a_version_that_a_line_asks_for_is_that_of_the_package_metadata() -> None:
    """An error names the library itself; the limits are those of the extra that also brings it."""
    wanted: dict[str, set[str]] = {}
    for project in projects().values():
        for line in chain(project["dependencies"], *project.get("optional-dependencies", {}).values()):
            need = Requirement(line)
            wanted.setdefault(need.name.lower(), set()).add(str(need.specifier))
    compared = set()
    for path, word in install_words():
        if not re.match(r"\w[\w.-]*[<>=!~]", word) or {"{", "…"} & set(word):
            continue
        need = Requirement(word)
        if need.name.lower() in wanted:
            compared.add(need.name)
            exact = next((one.version for one in need.specifier if one.operator == "=="), "")
            limits = wanted[need.name.lower()]
            assert any(
                SpecifierSet(one).contains(exact) if exact else SpecifierSet(one) == need.specifier for one in limits
            ), (path, word)
    assert {"onnxruntime", "huggingface_hub", "jiwer", "nncf", "peft", "torch"} <= compared
