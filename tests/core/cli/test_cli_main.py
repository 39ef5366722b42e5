from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from plugin_packages import GOOD, site

from optim.__main__ import main as program
from optim._engine.api.request import default_output
from optim._engine.cli.commands import OptimGroup, module_of
from optim._engine.cli.failures import diagnose, print_error
from optim._engine.cli.main import main, optim
from optim.errors import ExitStatus, OptimError
from optim.hooks import OWN_COMMANDS

__all__ = ["site"]

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "torch", "pydantic")
ADD_A_VERB = """
from optim.hooks import Command

@hookimpl
def optim_commands():
    return [Command("{module}_verbs:make_tea", "Makes tea."), "{module}_none:lost"]
"""
MAKE_TEA = """
import click

@click.command()
@click.argument("leaf")
def make_tea(leaf):
    click.echo(leaf)
    if leaf == "none":
        raise SystemExit("there is no tea")
    return 4
"""


def test_help_lists_every_command_and_imports_none(site):
    script = "import sys; from optim.__main__ import main; main(['--help']); print([m for m in sys.modules if m in %r])"
    done = site.python("-c", script % ([*HEAVY, *map(module_of, OWN_COMMANDS)],))
    assert done.stdout.splitlines()[-1] == "[]"
    for name, text in OWN_COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_every_listed_command_is_there_and_described(name):
    group = optim
    assert isinstance(group, OptimGroup)
    command = group.get_command(click.Context(group), name)
    assert command.name == name
    assert command.get_short_help_str()


LISTINGS = [["--plugins", "list", "--json"], ["plugins", "list"], ["passes", "list"], ["targets"]]


def test_listings_import_nothing_heavy_with_ten_plugins(site):
    for number in range(10):
        site.add(f"acme{number}", GOOD)
    for arguments, done in zip(LISTINGS, site.runs(*LISTINGS), strict=True):
        assert (arguments, done.returncode, done.heavy) == (arguments, 0, []), done.stderr
        assert "acme9" in done.stdout


WRONG = {
    "model-missing": ["run", "none.onnx"],
    "feeds-missing": ["run", "there.onnx", "--data", "none.npz"],
    "unknown-target": ["run", "there.onnx", "--target", "none"],
    "bad-budget": ["run", "there.onnx", "--search-seconds", "-1"],
    "unknown-stage": ["run", "there.onnx", "--stage", "none"],
    "target-takes-no-onnx": ["run", "there.onnx", "--target", "torch-eager"],
    "model-empty": ["verify", "there.onnx", "empty.onnx"],
    "model-is-a-folder": ["bench", "there.onnx", "."],
    "unknown-pass": ["run", "there.onnx", "--with", "ort.cleen"],
}


def test_what_cannot_be_is_refused_before_anything_heavy_is_imported(site, tmp_path):
    """And before the model is read: it is none."""
    (tmp_path / "there.onnx").write_bytes(b"not read")
    (tmp_path / "empty.onnx").touch()
    for reference, done in zip(WRONG, site.runs(*WRONG.values(), folder=tmp_path), strict=True):
        assert f"error[{reference}]" in done.stderr
        assert done.returncode in (ExitStatus.USAGE, ExitStatus.BAD_INPUT)
        assert (reference, done.heavy) == (reference, [])
    assert not list(tmp_path.glob("*-optim"))


def test_the_default_folder_is_called_after_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet.onnx").touch()
    (tmp_path / "minilm").mkdir()
    names = [str(default_output(Path(source))) for source in ("resnet.onnx", "models/resnet.onnx", "minilm", "a.b:net")]
    assert names == ["resnet-optim", "resnet-optim", "minilm-optim", "net-optim"]


def test_the_default_folder_is_refused_where_another_model_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet-optim").mkdir()
    (tmp_path / "resnet-optim" / "report.json").write_text(json.dumps({"original": {"path": "resnet.onnx"}}))
    assert default_output(tmp_path / "resnet.onnx") == Path("resnet-optim")
    with pytest.raises(OptimError, match="holds the result of another model") as raised:
        default_output(Path("other/resnet.onnx"))
    assert raised.value.fix == "name a folder: -o DIR"


@pytest.mark.slow
def test_both_ways_to_list_plugins_say_the_same(site):
    site.add("acme", GOOD)
    options = ((), ("--json",), ("--verbose",))
    done = site.runs(
        *(("--plugins", "list", *more) for more in options), *(("plugins", "list", *more) for more in options)
    )
    for first, second in zip(done[:3], done[3:], strict=True):
        assert first.stdout == second.stdout
        assert "acme" in first.stdout
        assert (first.returncode, first.stderr) == (0, "")


def test_the_version_is_the_one_of_the_package(site):
    long, short = site.runs(("--version",), ("-V",))
    assert re.fullmatch(r"optim \d+\.\d+\.\d+\S*\n", long.stdout)
    assert short.stdout == long.stdout


def test_without_a_command_the_help_is_shown(site):
    done = site.run()
    assert done.returncode == 0
    assert "Optimize:" in done.stdout


def test_options_of_a_listing_are_refused_before_another_command(site):
    done = site.run("--plugins", "list", "targets")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[usage]: --plugins, --json and --verbose belong after the command" in done.stderr


def test_an_unknown_command_lists_the_near_ones(site):
    done = site.run("verfy")
    assert done.returncode == 2
    assert done.stderr == (
        "error[unknown-command]: there is no command 'verfy'\n"
        "  cause: did you mean verify or deliver?\n"
        "  fix:   optim --help\n"
    )


def test_a_wrong_command_line_is_one_error_with_the_usage(site):
    done = site.run("plugins", "show", "--colour")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[usage]: No such option")
    assert "optim plugins show [OPTIONS] NAME" in done.stderr
    assert "  fix:   optim plugins show --help\n" in done.stderr


def test_with_json_an_error_is_json_on_stdout_and_text_on_stderr(site):
    for done in site.runs(("plugins", "show", "nobody", "--json"), ("passes", "list", "--bad", "--json")):
        error = json.loads(done.stdout)["error"]
        assert list(error) == ["reference", "what", "cause", "fix", "package", "status"]
        assert error["status"] == done.returncode == 2
        assert done.stderr.startswith(f"error[{error['reference']}]: {error['what']}\n")


def test_an_unforeseen_error_is_internal_and_has_a_traceback_only_with_debug(monkeypatch, capsys):
    def fall_over(ctx):
        raise ValueError("two\nlines")

    monkeypatch.setattr(optim, "invoke", fall_over)
    assert main(["targets"]) == 1
    plain = capsys.readouterr().err
    assert plain.startswith("error[internal]: ")
    assert re.search(r"^  cause: ValueError: two lines \(test_cli_main\.py:\d+\)$", plain, re.MULTILINE)
    assert "Traceback" not in plain
    assert main(["--debug", "targets"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_ends_with_130_and_one_line(monkeypatch, capsys):
    def interrupted(ctx):
        raise KeyboardInterrupt

    monkeypatch.setattr(optim, "invoke", interrupted)
    assert main(["targets"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_ctrl_c_while_a_plugin_loads_ends_with_130(site):
    site.add("slow", "import time, sys\nsys.stderr.write('loading')\nsys.stderr.flush()\ntime.sleep(60)")
    environment = {**os.environ, "PYTHONPATH": f"{site.folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "optim", "targets"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert process.stderr.read(len("loading")) == "loading"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(site):
    for number in range(3):
        site.add(f"acme{number}", GOOD)
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": f"{site.folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    asked = [("", listing) for listing in LISTINGS] + [("1", LISTINGS[0]), ("1", ["nonsense", "--json"])]
    for unbuffered, arguments in asked:
        done = subprocess.run(
            [sys.executable, "-m", "optim", *arguments],
            env={**environment, "PYTHONUNBUFFERED": unbuffered},
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 141
        assert "Traceback" not in done.stderr
        assert "internal" not in done.stderr
    os.close(write)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("x.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
    ids=repr,
)
def test_too_little_memory_is_no_defect_of_ours(error):
    assert diagnose(error).reference == "out-of-memory"


def test_an_interrupt_while_the_program_is_imported_has_no_traceback(monkeypatch, capsys):
    class Interrupting:
        @staticmethod
        def find_spec(name, path, target=None):
            if name == "optim._engine.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "optim._engine.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])
    assert program() == ExitStatus.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_an_exit_that_no_command_asked_for_is_no_success(monkeypatch, capsys):
    monkeypatch.setattr("optim._engine.cli.main._invoke", lambda arguments: sys.exit(0))
    assert main(["plugins", "list"]) == ExitStatus.INTERNAL
    assert "SystemExit: 0 (" in capsys.readouterr().err


def test_an_error_is_coloured_on_a_terminal_and_the_text_stays(monkeypatch, capsys):
    error = diagnose(click.UsageError("no"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_error(error, as_json=False)
    assert capsys.readouterr().err == f"{error}\n"


def test_a_plugin_adds_a_verb(site):
    module = site.add("acme", GOOD + ADD_A_VERB)
    (site.folder / f"{module.stem}_verbs.py").write_text(MAKE_TEA)
    done, ended, helped = site.runs(("make-tea", "green"), ("make-tea", "none"), ("--help",))
    assert (done.returncode, done.stdout) == (4, "green\n")
    assert (ended.returncode, ended.stderr) == (1, "there is no tea\n")
    listed = helped.stdout.partition("Commands of plugins:")[2]
    assert re.search(r"^  make-tea +Makes tea. \(plugin acme\)$", listed, re.MULTILINE)
    assert re.search(r"^  run .*^  lost +\(plugin acme\)$", helped.stdout, re.MULTILINE | re.DOTALL)


def test_a_verb_that_cannot_be_imported_is_an_error_of_its_plugin(site):
    module = site.add("acme", GOOD + ADD_A_VERB)
    done = site.run("lost")
    assert done.returncode == 2
    assert f"No module named '{module.stem}_none'" in done.stderr
    assert "  from:  optim-acme 1.0" in done.stderr


def test_a_verb_that_breaks_down_names_its_plugin_and_shows_its_own_lines_first(site):
    module = site.add("acme", GOOD + ADD_A_VERB)
    verbs = site.folder / f"{module.stem}_verbs.py"
    verbs.write_text(MAKE_TEA.replace("click.echo", "spill").replace("import click", "import click\n\nspill = None"))
    done = site.run("--debug", "make-tea", "green")
    assert done.returncode == 1
    assert "error[command-failed]: command make-tea broke down\n" in done.stderr
    assert "  from:  optim-acme 1.0" in done.stderr
    first, _, whole = done.stderr.partition("Traceback (most recent call last)")
    assert verbs.name in first
    assert "main.py" not in first
    assert "main.py" in whole


def test_the_completion_script_names_the_program(site):
    for done in site.runs(*(("completion", shell) for shell in ("bash", "zsh", "fish"))):
        assert done.returncode == 0
        assert "_OPTIM_COMPLETE" in done.stdout


COMPLETIONS = {
    "optim pas": {"plain,passes"},
    "optim passes show acme.": {"plain,acme.shrink"},
    "optim passes list --target acme": {"plain,acme-device"},
    "optim plugins show ac": {"plain,acme"},
    "optim passes list --stage qu": {"plain,quantize"},
    "optim run m.onnx --with acme.": {"plain,acme.shrink"},
    "optim run m.onnx --target acme": {"plain,acme-device"},
    "optim --disable-plugin ac": {"plain,acme"},
    "optim --disable-plugin acme run m.onnx --with acme.": set(),
    "optim --disable-plugin nobody run m.onnx --with acme.": {"plain,acme.shrink"},
}


@pytest.mark.slow
def test_a_shell_completes_commands_passes_targets_and_plugins(site):
    site.add("acme", GOOD)
    site.add("broken", "print('noise'); raise RuntimeError('no')")
    asked = [
        {"_OPTIM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        for words in COMPLETIONS
    ]
    for (words, expected), done in zip(COMPLETIONS.items(), site.runs(environments=asked), strict=True):
        assert (words, set(done.stdout.split())) == (words, expected)
        assert "Traceback" not in done.stderr


def test_a_shell_gets_no_error_where_the_list_of_allowed_plugins_is_broken(site, tmp_path):
    (tmp_path / "plugins.toml").write_text("allow =")
    script = (
        "import pathlib, sys, optim._engine.plugins.permission as permission; from optim._engine.cli.main import main;"
        "permission.allow_file = lambda: pathlib.Path(sys.argv[1]); sys.exit(main())"
    )
    environment = {"_OPTIM_COMPLETE": "bash_complete", "COMP_WORDS": "optim plugins show a", "COMP_CWORD": "3"}
    done = site.python("-c", script, str(tmp_path / "plugins.toml"), environment=environment)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_every_command_module_of_the_table_exists():
    assert [name for name in OWN_COMMANDS if importlib.util.find_spec(module_of(name)) is None] == []


def test_options_load_with_a_click_whose_parameters_take_no_type(monkeypatch: pytest.MonkeyPatch) -> None:
    from optim.cli_kit import options

    untyped = type("Untyped", (), {})  # as before click 8.4
    monkeypatch.setattr(click, "ParamType", untyped)
    assert issubclass(runpy.run_path(options.__file__)["_SecondsOrAuto"], untyped)
