"""``optim plugins doctor``: what is wrong with this installation."""

from __future__ import annotations

import click

from optim.cli_kit.output import echo, json_option, print_json
from optim.errors import ExitStatus


@click.command
@json_option
def doctor(as_json: bool) -> int:
    """Look for what is broken, and say how to mend each thing.

    Two builds of onnxruntime side by side, missing or outdated libraries, plugins that fail, names used twice, passes
    that cannot be ordered, environments of isolated plugins that were not made or are broken. Exits with 4 where there
    is something to mend.
    """
    from optim._engine.plugins.doctor import Severity, examine
    from optim._engine.plugins.registry import load_registry

    found = examine(load_registry())
    problems = [finding for finding in found if finding.severity is Severity.PROBLEM]
    if as_json:
        fields = ("severity", "subject", "what", "fix")
        print_json({"findings": [{name: str(getattr(finding, name)) for name in fields} for finding in found]})
    else:
        for finding in found:
            click.secho(f"{finding.severity}: ", nl=False, fg="red" if finding in problems else "yellow")
            echo(f"{finding.subject}: {finding.what}")
            if finding.fix:
                echo(f"  fix:  {finding.fix}")
        echo(f"{len(problems)} to mend" if problems else "nothing to mend")
    return ExitStatus.NOT_HELD if problems else ExitStatus.DELIVERED
