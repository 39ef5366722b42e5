"""The target ``ep``: any execution provider by its name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import optim
from optim._engine.plugins.registry import load_registry, require_target
from optim._engine.runs.session_trust import read_session_file
from optim.errors import OptimError
from optim_testing import models


@pytest.mark.usefixtures("jobs_here")
def test_a_provider_of_this_onnxruntime_runs_a_model(tmp_path: Path) -> None:
    model = models.mlp(tmp_path)
    assert optim.verify(model, other_target="ep:CPUExecutionProvider").lossless
    with optim.lab(model, target="ep:CPUExecutionProvider") as lab, lab.open() as session:
        session.run(lab.sample())
        assert session.executed_on == {"CPUExecutionProvider": 1.0}


def test_settings_are_library_fallback_and_options_of_the_provider() -> None:
    target = require_target(load_registry(), "ep:X,library=x_package,device_type=CPU,fallback=cpu")
    assert (target.provider, target.library, target.fallback) == ("X", "x_package", True)
    assert dict(target.provider_options) == {"device_type": "CPU"}
    assert not target.exact
    assert not require_target(load_registry(), "ep:X").fallback


@pytest.mark.parametrize("name", ["ep:library=x", "ep:X,fallback=gpu", "ep:X,Y"])
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(OptimError) as caught:
        require_target(load_registry(), name)
    assert caught.value.reference in ("bad-target-setting", "unknown-target")


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ep", "no provider that ep:NAME names"),
        ("ep:NonsenseExecutionProvider", "it has"),
        ("ep:X,library=no_such_package", "No module named 'no_such_package'"),
        ("ep:X,library=not_a_library", "not_a_library"),
    ],
)
def test_a_provider_or_library_that_is_not_there_is_one_error(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "not_a_library.py").write_text(f"def get_library_path(): return {str(tmp_path / 'x.so')!r}\n")
    (tmp_path / "x.so").write_bytes(b"no library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptimError) as caught:
        optim.lab(models.mlp(tmp_path), target=name)
    assert caught.value.reference == "provider-missing"
    assert words in str(caught.value)
    sys.modules.pop("not_a_library", None)


def test_a_session_file_may_have_known_options_and_no_file(tmp_path: Path) -> None:
    saved = '{"provider": "OpenVINOExecutionProvider", "provider_options": {"%s": "%s"}}'
    (tmp_path / "session.json").write_text(saved % ("device_type", "CPU"))
    assert read_session_file(tmp_path).provider_options == {"device_type": "CPU"}
    for option in ("load_config", "cache_dir"):
        (tmp_path / "session.json").write_text(saved % (option, "x"))
        with pytest.raises(OptimError) as caught:
            read_session_file(tmp_path)
        assert caught.value.reference == "untrusted-setting"
