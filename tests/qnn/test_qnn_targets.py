"""The targets: what they need, what a user may set, and what is missing where they cannot be used."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from qnn_models import on_htp

from optim import ExitStatus, OptimError
from optim._engine.plugins.registry import load_registry
from optim_qnn.htp import targets
from optim_qnn.htp.soc import SOCS, find_soc

_HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnxruntime_qnn", "pydantic")
Found = namedtuple("Found", "origin")


def only_installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def version(name: str) -> str:
        if name in names:
            return "1"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_asking_what_it_offers_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom optim_qnn import plugin\n"
        "for target in plugin.optim_targets():\n"
        "    target.unavailable(), plugin.optim_fuse(target), plugin.optim_quantize(target)\n"
        "    plugin.optim_convert_precision(target), plugin.optim_post_process(target)\n"
        f"plugin.optim_backends()\nprint(sorted(set(sys.modules) & set({_HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@on_htp
def test_the_simulator_is_not_timed_and_says_so() -> None:
    target = load_registry().target("qnn")
    assert target.unavailable() is None
    assert target.timed is not targets.is_simulated()
    assert not target.fallback
    assert "simulator" in target.remark
    assert "time says nothing" in target.remark


def test_a_device_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "ARM64")
    target = targets.make_targets()[0]
    assert target.timed
    assert not target.remark
    assert "soc_model" not in target.provider_options


def test_where_gpu_onnxruntime_is_installed_it_says_which_to_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    only_installed(monkeypatch, "onnxruntime-gpu", "onnxruntime", "onnxruntime-qnn")
    reason = targets.qnn_missing() or ""
    assert "exclude each other" in reason
    assert "pip uninstall -y onnxruntime-gpu" in reason


def test_missing_packages_and_missing_libraries_are_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only_installed(monkeypatch)
    assert "onnxruntime is not installed" in (targets.qnn_missing() or "")
    only_installed(monkeypatch, "onnxruntime")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = targets.qnn_missing() or ""
    assert "pip install onnxruntime-qnn" in reason
    assert "qnn-offline" in reason
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Found(str(tmp_path / "__init__.py")))
    assert "libQnnHtp.so" in (targets.qnn_missing() or "") or sys.platform == "win32"


def test_a_missing_library_is_an_error_and_never_a_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_needed_files", lambda: ("libQnnNobodyHas.so",))
    target = targets.make_targets()[0]
    assert "lacks libQnnNobodyHas.so" in (target.unavailable() or "")


def test_settings_choose_the_chip_the_fallback_and_the_performance() -> None:
    target = load_registry().target("qnn:soc=sm8650,fallback=cpu,performance=burst")
    assert target.name == "qnn:soc=sm8650,fallback=cpu,performance=burst"
    assert target.provider_options["soc_model"] == "57"
    assert target.provider_options["htp_performance_mode"] == "burst"
    assert target.fallback
    assert "Snapdragon 8 Gen 3" in target.device
    assert "fallback to the CPU is allowed" in target.remark
    assert load_registry().target("qnn:soc=57").provider_options["soc_model"] == "57"


@pytest.mark.parametrize(
    ("name", "reference", "says"),
    [
        ("qnn:soc=sm8651", "unknown-soc", "sm8650"),
        ("qnn:chip=sm8650", "unknown-target-setting", "soc"),
        ("qnn:fallback=gpu", "bad-target-setting", "cpu"),
        ("qnn:performance=fast", "bad-target-setting", "burst"),
        ("qnn:soc", "bad-target-setting", "key=value"),
        ("qnn:", "bad-target-setting", "key=value"),
        ("qnn-offline:soc=57", "bad-target-setting", "no settings"),
        ("cpu:soc=57", "unknown-target-setting", "threads"),
        ("qnm", "unknown-target", "qnn"),
    ],
)
def test_a_setting_that_does_not_exist_is_one_clear_error(name: str, reference: str, says: str) -> None:
    with pytest.raises(OptimError) as caught:
        load_registry().target(name)
    assert caught.value.reference == reference
    assert caught.value.status is ExitStatus.USAGE
    assert says in str(caught.value)


def test_every_chip_has_a_number_of_its_own() -> None:
    assert len({soc.model for soc in SOCS}) == len({soc.name for soc in SOCS}) == len(SOCS)
    assert all(find_soc(soc.name.upper()) is soc for soc in SOCS)
