"""The command ``optim``: what it knows before any command is loaded, and how it ends.

An error is printed on stderr as a diagnosis. A caller who asked for ``--json`` also gets it on stdout, as
``{"error": {"reference", "what", "cause", "fix", "package", "status"}}``, so that stdout is JSON either way.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Sequence

import click

from optim._engine.cli.commands import OptimGroup
from optim.cli_kit.names import disable_option
from optim.errors import ExitStatus

_COMPLETE_VARIABLE = "_OPTIM_COMPLETE"
_BROKEN_PIPE = 141
"""128 + SIGPIPE: how a shell reports a program whose reader went away."""


@click.group(cls=OptimGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    None, "-V", "--version", package_name="optim-core", prog_name="optim", message="%(prog)s %(version)s"
)
@click.option(
    "--plugins", "listing", type=click.Choice(["list"]), help="List the plugins; the same as optim plugins list."
)
@click.option("--json", "as_json", is_flag=True, hidden=True, help="With --plugins list: as JSON.")
@click.option("--verbose", is_flag=True, hidden=True, help="With --plugins list: as optim plugins list --verbose.")
@disable_option
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def optim(ctx: click.Context, listing: str | None, as_json: bool, verbose: bool, debug: bool) -> None:
    """Make an ONNX model fast on your hardware, and prove that it still computes the same.

    Start with: optim run model.onnx -o out
    """
    del debug  # read where an error is printed
    if ctx.invoked_subcommand is not None:
        if listing or as_json or verbose:
            raise click.UsageError("--plugins, --json and --verbose belong after the command", ctx)
    elif listing:
        from optim._engine.cli.verbs.plugins import print_plugins

        print_plugins(as_json=as_json, verbose=verbose)
    elif as_json or verbose:
        raise click.UsageError("--json and --verbose need a command, or --plugins list", ctx)
    else:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: by default those of this process.

    Returns:
        The exit status, an :class:`ExitStatus` where optim itself decides. A command sets one by returning it.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _require_streams()
    if _COMPLETE_VARIABLE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(optim, {}, "optim", _COMPLETE_VARIABLE, os.environ[_COMPLETE_VARIABLE])
    try:
        status = _answer(arguments)
        sys.stdout.flush()
    except BrokenPipeError as error:
        return _BROKEN_PIPE if _reader_is_gone() else _fail(error, arguments)
    except OSError as error:
        return _fail(error, arguments)
    return status


def _require_streams() -> None:
    """See to it that there is somewhere to read from and to write to, and that any letter can be written.

    A stream that the caller has closed is nowhere: else the next file that is opened would be taken for it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _answer(arguments: list[str]) -> int:
    """Run the command and print how it failed, if it did."""
    try:
        return _invoke(arguments)
    except BrokenPipeError:
        raise
    except click.exceptions.NoArgsIsHelpError as request:
        request.show()
        return ExitStatus.USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return ExitStatus.INTERRUPTED
    except (Exception, SystemExit) as error:  # the last resort of the program: anything else is a defect of optim
        return _fail(error, arguments)


def _invoke(arguments: list[str]) -> int:
    """Click's own ``main`` without its exits: they would hide what happened from ``main`` above."""
    _warn_of_unknown_disabled()
    try:
        with optim.make_context("optim", list(arguments)) as ctx:
            status = optim.invoke(ctx)
    except click.exceptions.Exit as request:
        return request.exit_code
    return status if isinstance(status, int) else ExitStatus.DELIVERED


def _warn_of_unknown_disabled() -> None:
    """A name that is misspelt in the environment leaves a plugin on that somebody wants off."""
    from optim._engine.plugins.permission import DISABLE_VARIABLE, disabled_names

    if not (names := disabled_names()):
        return
    from optim._engine.plugins.discovery import installed_names

    if unknown := sorted(names.difference(installed_names())):
        click.echo(f"warning: {DISABLE_VARIABLE} names a plugin that is not installed: {', '.join(unknown)}", err=True)


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    from optim._engine.cli.failures import diagnose, print_error

    if isinstance(error, OSError) and error.filename is None and not isinstance(error, FileNotFoundError):
        _discard_stdout()  # it may be stdout that cannot be written to
    diagnosis, debug = diagnose(error), "--debug" in arguments
    print_error(diagnosis, as_json="--json" in arguments, trace=error if debug else None)
    return diagnosis.status


def _reader_is_gone() -> bool:
    """Whether it is our stdout that is broken; if so, it leads nowhere, so that Python's own last flush is quiet."""
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    if hasattr(select, "poll"):  # not on Windows
        poll = select.poll()
        poll.register(stdout, 0)
        if not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            return False
    _discard_stdout()
    return True


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
