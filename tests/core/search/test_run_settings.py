"""Numbers that a run is given: what cannot be one is refused before anything is done."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from optim._engine.api.request import settings_from
from optim._engine.cli.main import main
from optim._engine.search.settings import AUTO, RunSettings
from optim.errors import ExitStatus, OptimError


def test_how_long_a_run_takes_is_estimated_where_nobody_says_it():
    assert RunSettings(Path("model.onnx")).search_seconds == AUTO


@pytest.mark.parametrize(
    ("said", "reference", "what"),
    [
        ({"search_seconds": -1.0}, "bad-budget", "--search-seconds cannot be -1"),
        ({"search_seconds": math.nan}, "bad-budget", "--search-seconds cannot be nan"),
        ({"search_seconds": math.inf}, "bad-budget", "--search-seconds cannot be inf"),
        ({"timeout_s": 0.0}, "bad-budget", "--timeout cannot be 0"),
        ({"max_drift": math.nan}, "bad-budget", "--max-drift cannot be nan"),
        ({"max_drift": 0.0}, "bad-budget", "--max-drift cannot be 0"),
        ({"max_mismatch": 1.0}, "bad-budget", "--max-mismatch cannot be 1"),
        (
            {"max_mismatch": 0.1, "lossless": True},
            "conflicting-request",
            "--lossless and --max-mismatch exclude each other",
        ),
        ({"seed": -1}, "bad-seed", "--seed cannot be -1"),
    ],
)
def test_a_number_that_cannot_be_one_is_named(said, reference, what):
    with pytest.raises(OptimError) as caught:
        RunSettings(Path("model.onnx"), **said).require_sound()
    assert (caught.value.reference, caught.value.what, caught.value.status) == (reference, what, ExitStatus.USAGE)


def test_no_time_to_search_is_a_request_that_makes_sense():
    RunSettings(Path("model.onnx"), search_seconds=0.0).require_sound()


@pytest.mark.parametrize("words", ["--seconds nan", "--seconds inf", "--seconds 0", "--seconds abc", "--seed -1"])
@pytest.mark.parametrize("command", ["bench", "sensitivity --as int8"])
def test_the_command_line_refuses_them_too(command, words, capsys):
    verb, *rest = command.split()
    assert main([verb, "model.onnx", *rest, *words.split()]) == ExitStatus.USAGE
    assert f"Invalid value for '{words.split()[0]}'" in capsys.readouterr().err


def test_a_short_timeout_is_that_of_a_candidate_and_not_of_what_the_run_needs():
    assert RunSettings(Path("m.onnx"), timeout_s=3).needed_timeout_s == 900
    assert RunSettings(Path("m.onnx"), timeout_s=3600).needed_timeout_s == 3600


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ({"preset": "quick"}, 30.0),
        ({"preset": "default"}, "auto"),
        ({"preset": "best", "search_seconds": 600.0}, 600.0),
    ],
)
def test_a_preset_says_how_long_a_run_searches_unless_seconds_do(words, seconds):
    recipe = {"search_seconds": 77.0}
    assert settings_from(Path("m.onnx"), None, recipe, words, trust_code=False)[0].search_seconds == seconds
    with pytest.raises(OptimError, match="quick"):
        settings_from(Path("m.onnx"), None, None, {"preset": "quik"}, trust_code=False)
