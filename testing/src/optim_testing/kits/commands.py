"""What every command must hold, as tests: subclass, say which command and how it is called, and run pytest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner, Result

from optim.engine.testing import PluginInfo, command_defect, command_verb
from optim.errors import ExitStatus, OptimError
from optim.hooks import Command
from optim.options import import_named
from optim_testing.imports import imports_of
from optim_testing.kit import Kit

_STATUSES = {int(status) for status in ExitStatus}


class CommandConformance(Kit):
    """Subclass as ``TestMyCommand``, with the fixtures that raise here.

    Attributes:
        refused: words that it cannot do anything with, such as a file that is not there; empty: not tried.
    """

    refused: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def offered(self) -> Command:
        """The offer of the plugin."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture offered that returns an optim.Command")

    @pytest.fixture
    def words(self) -> Sequence[str]:
        """Words after the command that make it do something."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture words that returns what a user writes")

    @pytest.fixture
    def command(self, offered: Command) -> click.Command:
        """The command, imported."""
        found = import_named(offered.path)
        assert isinstance(found, click.Command), f"{offered.path} is a {type(found).__name__}, no click command"
        return found

    def test_its_verb_fits_and_is_described(self, offered: Command) -> None:
        """What the registry checks when a plugin offers it, and what ``optim --help`` shows."""
        defect = command_defect(offered, PluginInfo("", "", "", ""))
        assert not defect, defect
        assert offered.help.strip(), "say in help what it does, one line: optim --help shows that"
        assert "\n" not in offered.help, "its help must be one line"

    def test_it_has_help_with_every_option(self, command: click.Command, offered: Command) -> None:
        """``--help`` works, and no option is without a word."""
        found = _called(command, ["--help"], offered)
        assert found.exit_code == 0, found.output
        assert command.help, "give the function a docstring: --help shows it"
        bare = [
            one.opts[0] for one in command.params if isinstance(one, click.Option) and not one.hidden and not one.help
        ]
        assert not bare, f"say in help=... what these options are: {', '.join(bare)}"

    def test_it_works(self, command: click.Command, words: Sequence[str], offered: Command) -> None:
        """It ends with an exit status that optim knows, which it returns."""
        found = _called(command, words, offered)
        assert found.return_value is None or isinstance(found.return_value, int), (
            f"it returned {type(found.return_value).__name__}: return an optim.errors.ExitStatus, or nothing"
        )
        assert int(found.return_value or 0) in _STATUSES, f"{found.return_value} is not an exit status of optim"

    def test_with_json_its_output_is_json(self, command: click.Command, words: Sequence[str], offered: Command) -> None:
        """What is no result goes to stderr."""
        if not any("--json" in one.opts for one in command.params):
            pytest.skip("it has no option --json")
        found = _called(command, [*words, "--json"], offered)
        try:
            json.loads(found.stdout)
        except ValueError:
            pytest.fail(f"with --json stdout is no JSON:\n{found.stdout[:300]}", pytrace=False)

    def test_what_it_cannot_do_is_an_error_with_cause_and_fix(self, command: click.Command, offered: Command) -> None:
        """An OptimError, or a usage error of click: nobody is shown a traceback."""
        if not self.refused:
            pytest.skip("it says no words that it refuses (refused = ...)")
        try:
            found = command.main([*self.refused], prog_name=command_verb(offered), standalone_mode=False)
        except click.ClickException:
            return
        except OptimError as error:
            assert error.cause.strip(), "say in cause why it cannot"
            assert error.fix.strip(), "say in fix what a user can do"
            return
        except Exception as error:
            pytest.fail(f"it raised {type(error).__name__}: {error}; raise optim.OptimError", pytrace=False)
        failed = isinstance(found, int) and found != ExitStatus.DELIVERED
        assert failed, "it did as if it had worked: raise optim.OptimError, or return another exit status"

    def test_importing_it_loads_nothing_heavy(self, offered: Command) -> None:
        """Its help, and completion in a shell, wait for its imports."""
        heavy = imports_of(offered.path.partition(":")[0])
        assert not heavy, f"importing it loads {', '.join(heavy)}: import them inside the function"


def _called(command: click.Command, words: Sequence[str], offered: Command) -> Result:
    found = CliRunner().invoke(command, list(words), prog_name=command_verb(offered), standalone_mode=False)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        pytest.fail(f"it raised {type(found.exception).__name__}: {found.exception}\n{found.output}", pytrace=False)
    return found
