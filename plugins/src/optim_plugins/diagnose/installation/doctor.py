"""``optim plugins doctor``."""

from __future__ import annotations

import click

from optim.cli_kit import echo, json_option, print_json
from optim.errors import ExitStatus


@click.command
@json_option
def doctor(as_json: bool) -> int:
    """Find what is wrong with this installation, and print how to fix it.

    The command finds two builds of onnxruntime, missing or old libraries, plugins that fail, names used twice, passes
    without an order, targets without their backend, and broken environments of isolated plugins.

    Exit status 0: nothing to fix; 4: at least one problem.
    """
    from optim.engine.installation import load_registry
    from optim_plugins.diagnose.installation.examine import Severity, examine

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
        echo(f"{len(problems)} to fix" if problems else "nothing to fix")
    return ExitStatus.NOT_HELD if problems else ExitStatus.DELIVERED
