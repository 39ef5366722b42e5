"""Models of this folder are tiny: what is dear is to trace them, so each is exported once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from exporting import Exported


@pytest.fixture(scope="session", autouse=True)
def all_exports_are_quick(quick_exports: None) -> None:
    """Most files of this folder export."""


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """The export of one of ``tiny_models``, by its name."""
    from exporting import export
    from tiny_models import save

    @cache
    def made(name: str) -> Exported:
        folder = tmp_path_factory.mktemp(name)
        return export(save(name, folder / "source"), folder)

    return made
