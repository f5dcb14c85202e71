"""``crosswind completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import json as json_module

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")
_WHERE = {
    "bash": 'eval "$(crosswind completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(crosswind completion zsh)"   in ~/.zshrc',
    "fish": "crosswind completion fish > ~/.config/fish/completions/crosswind.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--json", "as_json", is_flag=True, help="Print the script as JSON.")
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool) -> None:
    """Print a script that completes commands and options.

    For bash put the line  eval "$(crosswind completion bash)"  into ~/.bashrc, for zsh the same with zsh into
    ~/.zshrc; for fish save the script as ~/.config/fish/completions/crosswind.fish.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}; allowed: {', '.join(_SHELLS)}.")
    script = made(context.find_root().command, {}, "crosswind", "_CROSSWIND_COMPLETE").source()
    click.echo(json_module.dumps({"shell": shell, "script": script, "use": _WHERE[shell]}) if as_json else script)
