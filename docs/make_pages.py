"""Write the pages that are made from the code: commands, configuration, passes, errors, and public modules.

usage: python docs/make_pages.py [FOLDER]

They are not committed. ``make docs`` writes them before it builds the site; FOLDER is ``docs`` by default.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # where this is imported from elsewhere
import make_configuration  # noqa: E402
import make_errors  # noqa: E402
from page_text import cell, code, escaped, paragraphs  # noqa: E402

if TYPE_CHECKING:
    from optim._engine.cli.described_options import OptionRow
    from optim._engine.plugins.registry import Registry
    from optim._engine.plugins.survey import SurveyedPass

COMMANDS, CONFIGURATION, ERRORS = "command-line.md", "configuration.md", "errors.md"
PASSES, REPORT = "passes.md", "report-json.md"
"""The page of each kind; pages of single passes and modules are in the folders ``passes`` and ``api``."""

_ROLES = {
    "improve": "optim keeps it if it makes the model better by the goal.",
    "enable": "It prepares the graph for later passes. optim keeps it if a later pass needs it.",
    "requested": "It only runs if `--with` names it, or if the target requires it.",
}

_OPTIONS = {
    "ort.fix-shapes": ":dimensions={batch=1,sequence=128}",
    "prepost.append": ":preset='image-classification',settings='exported'",
}
"""Of passes that propose no options: what an example gives."""

_SOURCES = {"torch.load-huggingface": "hf://org/name", "torch.set-attention": "hf://org/name"}
"""Sources in examples of passes over sources; others take a factory."""


def pages() -> dict[str, str]:
    """Every page by its path below ``docs``."""
    return {
        COMMANDS: command_line(),
        ERRORS: make_errors.page(),
        **pass_pages(),
        REPORT: make_configuration.report_fields(),
        CONFIGURATION: make_configuration.page(),
        **module_pages(),
    }


def module_pages() -> dict[str, str]:
    """A page for each module that the page of public modules links to; mkdocstrings fills the page."""
    listed = re.findall(r"\(api/([\w.]+)\.md\)", (DOCS / "public-modules.md").read_text(encoding="utf-8"))
    return {f"api/{name}.md": f"# {name}\n\n::: {name}\n" + _members(name, listed) for name in listed}


def _members(package: str, elsewhere: Collection[str]) -> str:
    """The names that a package hands on, as an option of mkdocstrings; nothing for a module that is a file."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    imports = ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    homes = [node for node in imports if isinstance(node, ast.ImportFrom) and node.module not in elsewhere]
    names = [alias.name for node in homes for alias in node.names if alias.asname == alias.name]
    return f"    options:\n      members: {json.dumps(names)}\n" if names else ""


def command_line() -> str:
    """The page of all commands."""
    from optim._engine.cli.main import optim

    parts = [_COMMANDS_INTRODUCTION]
    for path, command in commands(optim):
        if not isinstance(command, click.Group):
            parts.append("\n".join(_of_command(path, command)))
    return "\n\n".join(parts) + "\n"


@cache
def command_of(group: click.Group, name: str) -> click.Command | None:
    """A command of a group; for one of a plugin, the group loads all plugins."""
    return group.get_command(click.Context(group), name)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, in the order of its help."""
    from optim._engine.cli.commands import GROUPS

    context = click.Context(group)
    names = group.list_commands(context)
    order = [verb for verbs in GROUPS.values() for verb in verbs]
    for name in names if path else sorted(names, key=lambda one: order.index(one) if one in order else len(order)):
        command = command_of(group, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def _of_command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"optim {' '.join(path)}")
    yield f"## optim {' '.join(path)}\n"
    yield f"    {' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.removeprefix("\b\n")
        yield (_indented(lines) if lines != paragraph else escaped(" ".join(lines.split()))) + "\n"
    headed = getattr(command, "options_by_heading", None)
    sections = headed(context) if headed else {"Options": [one for one in command.get_params(context) if _shown(one)]}
    for heading, options in sections.items():
        if heading != "Options":
            yield f"\n{heading}:\n"
        yield "| option | meaning |\n|---|---|"
        for option in options:
            record = option.get_help_record(context)
            if record is not None:
                yield "| " + " | ".join((code(record[0]), escaped(record[1]).replace("|", "\\|"))) + " |"
        yield ""
    if examples := getattr(command, "examples", ()):
        yield "Examples:\n\n" + "\n".join(f"    {line}" for line in examples)


def _shown(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.hidden


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def pass_pages() -> dict[str, str]:
    """The list of all passes, and a page for each."""
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.survey import survey_passes
    from optim.passes import Stage

    registry = load_registry()
    items = sorted(survey_passes(registry), key=lambda item: item.offered.name)
    rows = []
    for stage in Stage:
        of_stage = [item for item in items if item.offered.stage is stage]
        if of_stage:
            rows += [f"\n## {stage.value}\n", "| pass | what it does | accuracy |", "|---|---|---|"]
            rows += [_pass_row(item) for item in of_stage]
    made = {PASSES: _PASSES_INTRODUCTION + "\n".join(rows) + "\n"}
    return made | {f"passes/{item.offered.name}.md": _pass_page(item, registry) for item in items}


def _pass_row(item: SurveyedPass) -> str:
    name, cls = item.offered.name, item.offered.pass_class
    lossy = "lossy" if getattr(cls, "lossy", False) else "rounding error only"
    return f"| [{name}](passes/{name}.md) | {escaped(cls.summary)} | {lossy} |"


def _pass_page(item: SurveyedPass, registry: Registry) -> str:
    from optim._engine.cli.described_options import describe_options

    name, cls = item.offered.name, item.offered.pass_class
    parts = [f"# {name}", f"{_sentence(cls.summary)} Stage `{item.offered.stage}`, plugin `{item.offered.plugin}`."]
    if targets := [f"`{target}`" for target in item.targets]:
        parts.append(f"Targets: {', '.join(targets)}.")
    parts += ["## When it applies", *_applies(cls), "## What it costs", *_costs(cls)]
    parts += ["## Options", _options_table(describe_options(cls, item.offered.plugin)), "## Example", _example(item)]
    parts += ["## How it works", paragraphs(inspect.cleandoc(sys.modules[cls.__module__].__doc__ or ""))]
    order = [(side, getattr(cls, side)) for side in ("before", "after")]
    parts += [f"It runs {side} {', '.join(f'`{one}`' for one in names)}." for side, names in order if names]
    return "\n\n".join(filter(None, parts)) + "\n"


def _applies(cls: type) -> Iterator[str]:
    method = getattr(cls, "applicable", None)
    text = " ".join((inspect.getdoc(method) or "").split())
    inherited = text.startswith("Decides whether the ")
    yield _condition(text) if text and not inherited else "The pass decides from the graph."
    if role := getattr(cls, "role", None):
        yield _ROLES[role.value]
    if goals := getattr(cls, "goals", ()):
        yield f"optim tries it for these goals: {', '.join(f'`{goal}`' for goal in goals)}."
    if group := getattr(cls, "alternatives", None):
        yield f"A model gets at most one pass of the group *{group}*."


def _condition(text: str) -> str:
    """The docstring of ``applicable``, such as ``If ...``, as a sentence."""
    begins = {"If ": "The pass applies if ", "Unless ": "The pass applies unless ", "To ": "The pass applies to "}
    first = next((begin for begin in begins if text.startswith(begin)), "")
    return _sentence(begins.get(first, "") + text.removeprefix(first))


def _costs(cls: type) -> Iterator[str]:
    if getattr(cls, "lossy", None) is None:
        yield "optim compares the exported graph with the source. Only rounding error is allowed."
        return
    yield (
        "Accuracy: the pass is lossy. The result must meet the accuracy budget (`--max-drift`, `--max-loss`)."
        if getattr(cls, "lossy", False)
        else "Accuracy: rounding error only."
    )
    if getattr(cls, "calibrates", False):
        yield "Time: the pass runs the model on samples, so a candidate takes longer than one of another pass."
    if getattr(cls, "session_only", False):
        yield "The pass only changes session settings. The graph stays as it is."
    if getattr(cls, "recasts", False):
        yield "The pass changes inputs or outputs, so the program that calls the model must change too."
    if hardware := getattr(cls, "hardware", ""):
        yield f"Hardware: {escaped(hardware)}."


def _options_table(rows: list[OptionRow]) -> str:
    if not rows:
        return "None."
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        default = "required" if row.required else code(json.dumps(row.default))
        lines.append(f"| `{row.name}` | {code(row.type)} | {default} | {cell(row.description)} |")
    return "\n".join(lines)


def _example(item: SurveyedPass) -> str:
    name, targets = item.offered.name, item.targets
    with_options = name + _OPTIONS.get(name, "")
    quoted = f'"{with_options}"' if ":" in with_options else name
    if item.offered.stage.value in ("pre-export", "export"):
        return f"    optim export {_SOURCES.get(name, 'package.module:factory')} -o exported --with {quoted}"
    target = "" if not targets or "cpu" in targets else f" --target {targets[0]}"
    return f"    optim run model.onnx -o out{target} --with {quoted}"


def _sentence(text: str) -> str:
    text = escaped(text[:1].upper() + text[1:])
    return text if text.endswith((".", ")")) else f"{text}."


def write(made: Mapping[str, str], folder: Path) -> None:
    """Write the pages below a folder; pages of passes that are gone are deleted."""
    for place in ("passes", "api"):
        for old in (folder / place).glob("*.md"):
            old.unlink()
    for path, text in made.items():
        aim = folder / path
        aim.parent.mkdir(parents=True, exist_ok=True)
        aim.write_text(text, encoding="utf-8")


_COMMANDS_INTRODUCTION = """# The command line

Every command of optim and its standard plugins with every option. `optim COMMAND --help` prints the same.

Results are on stdout; progress and errors are on stderr. `--json` prints a table as JSON, and an error as well.
`optim --debug COMMAND ...` adds the traceback of an error. `optim -V` prints the version.
[Configuration](configuration.md) explains input samples, exit statuses and environment variables.

A model is an `.onnx` file with its external data beside it, a run folder, `hf://ORG/NAME[@REVISION]/FILE.onnx`, or the
URL of an `.onnx` file. Options in square brackets show their default."""

_PASSES_INTRODUCTION = """# Passes

A pass is one transformation of a model. optim tries passes stage by stage, and keeps a pass if its result meets the
accuracy budget and is better by the goal. These are the passes of the standard plugins, by stage. `optim passes list`
prints those of your installation, and `optim passes show PASS` one of them.
"""


if __name__ == "__main__":
    aim = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    found = pages()
    write(found, aim)
    print(f"wrote {len(found)} pages into {aim}")
