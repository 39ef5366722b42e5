from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optim._engine.reports.outcome import RunStatus
from optim._engine.reports.schema import Report
from optim._engine.search.state import StepStatus

PAGE = (Path(__file__).parents[2] / "docs" / "reading-a-report.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)


def fields_of_the_report() -> set[str]:
    """Every field by its path in JSON, e.g. ``steps.pass``."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")

    def walk(node: dict[str, Any], path: str) -> Iterator[str]:
        for inner in (node, node.get("items", {}), *node.get("anyOf", ())):
            named = schema["$defs"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
            for name, value in named.get("properties", {}).items():
                yield f"{path}{name}"
                yield from walk(value, f"{path}{name}.")

    return set(walk(schema, ""))


def test_every_verdict_is_explained() -> None:
    assert set(first_cells("The verdict")) == {status.value for status in RunStatus}


def test_every_status_of_a_step_is_explained() -> None:
    assert set(first_cells("The steps")) == {status.value for status in StepStatus}


def test_every_field_is_on_the_page_of_fields(made_pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(.+?)` \|", made_pages["report-json.md"], re.MULTILINE)
    assert set(rows) == fields_of_the_report()
    assert re.findall(r"^\| `(.+?)` \| *\|$", made_pages["report-json.md"], re.MULTILINE) == [], "fields without a text"
    assert {"result.latency_ratio_ci", "result.drift.cosine", "steps.ratio_to_best"} <= set(rows)
