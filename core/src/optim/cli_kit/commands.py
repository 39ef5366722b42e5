"""Commands whose help has headings and examples, and which still read the old names of their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


class OptimCommand(click.Command):
    """A click command with headings, old names and examples: ``@click.command(cls=OptimCommand, ...)``.

    Args:
        sections: options by heading. The help shows all other options first.
        old_names: present names of options, by the name in an earlier version.
        examples: command lines at the end of the help.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        old_names: Mapping[str, str] | None = None,
        examples: Sequence[str] = (),
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.sections = dict(sections or {})
        self.old_names = dict(old_names or {})
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words. Replaces an old name of an option by the present one."""
        return super().parse_args(ctx, list(self._renamed(args)))

    def _renamed(self, words: Iterable[str]) -> Iterable[str]:
        options = True
        for word in words:
            options = options and word != "--"
            name, equals, value = word.partition("=")
            yield self.old_names[name] + equals + value if options and name in self.old_names else word

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
