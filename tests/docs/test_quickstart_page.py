"""docs/quickstart.md and README.md show what ``docs/make_quickstart.py`` saw; pictures of all pages are there.

``tests/examples/test_minilm_demo.py`` runs the commands.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
PAGE = (DOCS / "quickstart.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_quickstart", DOCS / "make_quickstart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_its_output(script: ModuleType) -> None:
    blocks = list(script.BLOCK.finditer(PAGE))
    assert len(blocks) == len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)), "a block that the script does not know"
    commands = [block[3] for block in blocks if block[1] == "text"]
    assert commands[0] == "make demo"
    assert len(commands) > 5
    assert [block[3] for block in blocks if block[1] == "text" and not block[4].strip()] == []
    assert "internal" not in PAGE
    assert "\x1b" not in PAGE
    assert not re.search(r"/(tmp|root|home|opt)/", PAGE), "the page names folders of the machine that made it"


def test_the_readme_shows_the_run_of_the_quickstart(script: ModuleType) -> None:
    shown = script.IN_README.search(README)
    assert shown[0] == shown[1] + script.for_readme(PAGE) + shown[2]
    assert "\nimproved: " in shown[0]


def test_lines_that_a_terminal_erases_are_not_kept(script: ModuleType) -> None:
    assert script.screen("one\r\n0:01 trying\n  9 s left\r\x1b[2K\x1b[1A\x1b[2K\x1b[1mtwo\x1b[0m\r\nthree") == (
        "one\ntwo\nthree"
    )
    assert script.typed("echo seen; exit 3") == (3, "seen")


def test_the_readme_fits_on_two_screens_and_links_where_there_is_something() -> None:
    assert len(README.splitlines()) <= 74
    links = [*re.findall(r"\]\(([^)#]+)\)", README), *re.findall(r'(?:src|srcset)="([^"]+)"', README)]
    assert [link for link in links if not (DOCS.parent / link).exists()] == []


def test_every_picture_that_a_page_shows_is_small() -> None:
    shown = {
        page.parent / place
        for page in DOCS.rglob("*.md")
        for place in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    }
    assert shown
    for path in shown:
        assert path.stat().st_size < 200_000
        assert path.suffix != ".png" or path.read_bytes().startswith(b"\x89PNG")
