"""Options that several commands have, and a class of commands with headings and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from optim.cli_kit.names import METRIC_NAME, TARGET_NAME, TARGET_NAMES, Decorated


class _Seconds(click.FloatRange):
    """A time above zero: FloatRange alone lets nan pass, and what is infinite overflows somewhere."""

    name = "number of seconds"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The unit; click's own word is FLOAT RANGE."""
        return "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of seconds."""
        from optim._engine.search.settings import LONGEST_S

        seconds = float(super().convert(value, param, ctx))
        if not seconds <= LONGEST_S:
            self.fail(f"{seconds:g} is not a number of seconds up to {LONGEST_S:.0f}, a month.", param, ctx)
        return seconds


class _SecondsOrAuto(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """A number of seconds, or ``auto``, which is what ``--preset default`` says."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the word."""
        return value if value == "auto" else click.FLOAT.convert(value, param, ctx)


class _ModelPath(click.Path):
    """A file or a folder; an address is brought to this machine first.

    Args:
        programs: whether folders of onnxruntime-genai stand for that program, and not for the graph in them.
    """

    def __init__(self, *, programs: bool = False) -> None:
        super().__init__(path_type=Path)
        self._programs = programs

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path of what is named."""
        from optim._engine.sources.naming import fetched, graph_of, is_address, is_genai_folder

        if not is_address(str(value)):
            path = Path(str(super().convert(value, param, ctx)))
            return path if self._programs and is_genai_folder(path) else graph_of(path)
        from optim.cli_kit.live_lines import progress

        with progress() as say:
            return fetched(str(value), say)


MODEL_PATH = _ModelPath()
"""Where a command takes a model: a path, ``hf://ORG/NAME/FILE``, or the URL of an ``.onnx`` file."""

MODEL_OR_PROGRAM_PATH = _ModelPath(programs=True)
"""The same, or a folder of onnxruntime-genai, which need not be a graph to optim: it may have a ``config.json`` too."""

SECONDS = _Seconds(min=0, min_open=True)
SECONDS_OR_AUTO = _SecondsOrAuto()
SEED = click.IntRange(min=0)

data_option = click.option(
    "--data",
    metavar="SAMPLES",
    help="Input samples: an .npz file, a folder of .npz files, or package.module:function. [default: synthesized]",
)


def _sizes(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal() or not int(size) or name in found:
            raise click.BadParameter(f"'{word}' is not NAME=N with N of 1 or more, or comes twice", ctx, param)
        found[name] = int(size)
    return found


def made_up_options(function: Decorated) -> Decorated:
    """The options of synthesized samples: ``--samples``, ``--size`` and ``--mask``."""
    mask = "Mask of synthesized rows: full hides nothing, end or start hides a part there. [default: in a few rows]"
    size = "Size of a dimension of synthesized samples, e.g. batch=4. Can be repeated."
    function = click.option("--mask", type=click.Choice(["full", "end", "start"]), default=None, help=mask)(function)
    function = click.option("--size", "sizes", multiple=True, metavar="NAME=N", callback=_sizes, help=size)(function)
    return click.option(
        "--samples", type=click.IntRange(min=1), metavar="N", help="Number of synthesized samples. [default: 8]"
    )(function)


target_option = click.option(
    "--target",
    type=TARGET_NAME,
    default="cpu",
    show_default=True,
    help="Target to run the model on; optim targets lists names.",
)


def targets_option(about: str, *, default: str | None = None) -> Callable[[Decorated], Decorated]:
    """Makes the option ``--target`` of commands that take several targets: with commas, or given more than once.

    Args:
        about: text of the help.
        default: name of a target.
    """

    def joined(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> str | None:
        return ",".join(names) or default

    shown = f"{about} [default: cpu]"
    return click.option("--target", type=TARGET_NAMES, multiple=True, callback=joined, help=shown)


def metric_options(function: Decorated) -> Decorated:
    """Adds the options ``--metric`` and ``--max-loss``."""
    help_of_loss = "Largest loss of --metric: 1% of its value, or 0.01. Drift is then not limited by default."
    function = click.option("--max-loss", metavar="X|X%", help=help_of_loss)(function)
    return click.option(
        "--metric",
        type=METRIC_NAME,
        metavar="NAME[:k=v,...]",
        help="Task metric to measure: a name of optim metrics, or package.module:function.",
    )(function)


def mismatch_option(function: Decorated) -> Decorated:
    """The option ``--max-mismatch``, as the user wrote it."""
    return click.option(
        "--max-mismatch",
        metavar="SHARE",
        help="Largest share of text or integer output values that may differ: 0.01 or 1%. [default: 0]",
    )(function)


def seed_option(what: str) -> Callable[[Decorated], Decorated]:
    """Makes the option ``--seed``, 0 by default.

    Args:
        what: text of the help.
    """
    return click.option("--seed", type=SEED, default=0, metavar="N", show_default=True, help=what)


class OptimCommand(click.Command):
    """A click command with headings and examples: ``@click.command(cls=OptimCommand, ...)``.

    Args:
        sections: options by heading. The help shows all other options first.
        examples: command lines at the end of the help.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[str] = (),
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.sections = dict(sections or {})
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, those of a section below its heading."""
        for heading, parameters in self.options_by_heading(ctx).items():
            rows = [row for one in parameters if (row := one.get_help_record(ctx)) is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def options_by_heading(self, ctx: click.Context) -> dict[str, list[click.Parameter]]:
        """Returns the options of the help in order. Options without a section are below ``Options``."""
        headings = {name: heading for heading, names in self.sections.items() for name in names}
        found: dict[str, list[click.Parameter]] = {"Options": [], **{heading: [] for heading in self.sections}}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and not parameter.hidden:
                heading = next((headings[name] for name in parameter.opts if name in headings), "Options")
                found[heading].append(parameter)
        return {heading: options for heading, options in found.items() if options}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, each on a line of its own."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n" + "".join(f"  {line}\n" for line in self.examples))
