"""docs/lint.py: the pages and help texts have no findings, and each rule finds what it is for."""

from __future__ import annotations

import pytest
from page_scripts import script_of

LINT = script_of("lint")


@pytest.mark.slow
def test_pages_and_help_texts_have_no_findings() -> None:
    assert [str(one) for one in LINT.findings()] == []


def test_every_page_that_is_not_checked_exists() -> None:
    assert [name for name in LINT.UNCLEAN if not (LINT.ROOT / name).is_file()] == []


def test_too_many_pages_and_words_are_found() -> None:
    assert list(LINT.too_much({"a.md": 35_000})) == []
    assert len(list(LINT.too_much({f"{i}.md": 1_200 for i in range(31)}))) == 2


def told(text: str) -> list[str]:
    return [one.text.partition(":")[0] for one in LINT.prose("page.md", text)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("What has none is skipped.", "a sentence begins with 'What'"),
        ("It runs. Where nothing holds it ends.", "a sentence begins with 'Where'"),
        ("- Of four samples one is held out.", "a sentence begins with 'Of'"),
        ("| a | Who asks gets it. |", "a sentence begins with 'Who'"),
        ("It reads the feeds\nof a model.", "'the feeds'"),
        ("Inputs are made up.", "'made up'"),
        (" ".join(["word"] * 36) + ".", "a sentence has 36 words, more than 35"),
    ],
)
def test_a_rule_finds_what_it_is_for(text: str, finding: str) -> None:
    assert told(text) == [finding]


@pytest.mark.parametrize(
    "text",
    [
        "# What it costs",
        "What does it cost?",
        "[What drift means](what-drift-means.md) has the definition.",
        "`feeds` is a name in the code.",
        "    What a command prints\n",
        "```\nWhat a command prints\n```",
        " ".join(["word"] * 35) + ".",
    ],
)
def test_titles_questions_and_code_are_no_findings(text: str) -> None:
    assert told(text) == []


def test_an_option_that_no_command_has_is_found_in_a_text() -> None:
    assert LINT.refused_option("write optim deliver OUT --as LAYOUT -o DIR") == "optim deliver has no --as"
    assert LINT.refused_option("optim adapters convert PEFT --for MODEL (or --base FOLDER); optim targets") == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("optim run model.onnx -o out", ""),
        ("for n in 30 60; do optim run model.onnx -o out-$n; done", ""),
        ("optim --debug verify a.onnx b.onnx > log  # shows it", ""),
        ("optim COMMAND --help", ""),
        ("optim bench a.onnx b.onnx --grid batch=1,8 sequence=16,128", ""),
        ("optim rum model.onnx", "there is no command rum"),
        ("optim run model.onnx --max-drif 0.1", "No such option"),
        ("optim run -o out", "SOURCE is missing"),
        ("optim run model.onnx --weights glue", "weights cannot be glue"),
        ("optim targets all", "all is too much"),
    ],
)
def test_a_command_line_is_parsed_as_optim_does(line: str, reason: str) -> None:
    found = [one.text for one in LINT.commands_of("page.md", f"    {line}\n")]
    assert [text for text in found if not text.startswith(reason)] == []
    assert bool(found) == bool(reason)


def test_a_command_in_a_sentence_needs_no_arguments_but_its_options_must_exist() -> None:
    assert list(LINT.commands_of("page.md", "Use `optim verify` or `optim run --with`.")) == []
    assert len(list(LINT.commands_of("page.md", "Use `optim verify --max-drif`."))) == 1


def test_links_to_missing_pages_and_headings_are_found() -> None:
    pages = {"docs/a.md": "# One\n[b](b.md#two) [c](c.md) [d](b.md#three) [r](../README.md)", "docs/b.md": "## Two"}
    assert [one.text for one in LINT.broken_links(pages)] == ["there is no c.md", "docs/b.md has no heading #three"]
