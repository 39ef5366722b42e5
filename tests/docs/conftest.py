"""The pages of docs/, those that are made when the site is built too."""

from __future__ import annotations

import pytest
from page_scripts import DOCS, script_of


@pytest.fixture(scope="session")
def made_pages() -> dict[str, str]:
    """The pages that are not committed, by their path below docs/."""
    found: dict[str, str] = script_of("make_pages").pages()
    return found


@pytest.fixture(scope="session")
def all_pages(made_pages: dict[str, str]) -> dict[str, str]:
    """Every page of the site by its path below docs/."""
    written = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    return written | made_pages
