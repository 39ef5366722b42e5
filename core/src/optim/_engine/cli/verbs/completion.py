"""``optim completion``: the script that makes a shell complete commands, options, passes and targets."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  optim completion bash >> ~/.bashrc
    zsh:   optim completion zsh >> ~/.zshrc
    fish:  optim completion fish > ~/.config/fish/completions/optim.fish
    """  # noqa: D301 - \b is click's mark for lines to keep
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "optim", "_OPTIM_COMPLETE").source())
