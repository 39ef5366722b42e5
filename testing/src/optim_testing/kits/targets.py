"""What every target must hold, as tests: subclass, say which target and which backend, and run pytest."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from optim.arrays import dtype_of
from optim.backend import Backend
from optim.engine.testing import HeldBackend, PluginInfo, load_registry, target_defect
from optim.errors import OptimError
from optim.jobs import from_wire, to_wire
from optim.onnx import describe_model
from optim.passes import Role
from optim.target import Target
from optim_testing import models
from optim_testing.imports import imports_of
from optim_testing.kit import Kit

_PASS_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*")

_PROBE_S = 2.0
"""For a probe: every listing of targets waits for it."""


class TargetConformance(Kit):
    """Subclass as ``TestMyTarget``, with the two fixtures that raise here.

    Attributes:
        settings: of a target with ``configure``, what a user may write behind its name, e.g. ``{"soc": "7"}``.
        plugin: the plugin that brings it, for the rules of names.
    """

    settings: ClassVar[Mapping[str, str]] = {}
    plugin: ClassVar[str] = ""

    @pytest.fixture
    def target(self) -> Target:
        """The target."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture target that returns the Target")

    @pytest.fixture
    def backend_class(self) -> type[Backend]:
        """The backend that runs models for it."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture backend_class that returns its backend")

    @pytest.fixture
    def model_path(self, tmp_path: Path) -> Path | str:
        """An ``.onnx`` file that runs on it."""
        return models.mlp(tmp_path)

    def test_its_name_and_attributes_fit(self, target: Target) -> None:
        """What the registry checks when a plugin offers it, and what people are shown."""
        defect = target_defect(target, PluginInfo(self.plugin or target.name, "", "", ""))
        assert not defect, defect
        assert target.device.strip(), "say in device what a person calls it: optim targets shows that"
        assert not (target.provider and target.runtime), "a target has a provider of onnxruntime or a runtime, not both"

    def test_its_backend_runs_it(self, target: Target, backend_class: type[Backend]) -> None:
        """It names the backend that it is to be run by."""
        assert target.backend == backend_class.name, f"it runs on '{target.backend}', not on '{backend_class.name}'"

    def test_its_probe_is_quick_and_gives_a_reason_or_none(self, target: Target) -> None:
        """Asked by every listing: it raises nothing, and its reason is one line."""
        if target.probe is None:
            pytest.skip("it has no probe: it can be used wherever its plugin is")
        started = time.monotonic()
        try:
            reason = target.probe()
        except Exception as error:
            pytest.fail(f"it raised {type(error).__name__}: {error}; return the reason as a text", pytrace=False)
        assert time.monotonic() - started < _PROBE_S, "it took too long: look for a file, and start nothing"
        assert reason is None or isinstance(reason, str), f"it returned {type(reason).__name__}: a text, or None"
        assert reason is None or (reason.strip() and "\n" not in reason), (
            "its reason must be one line that says something"
        )

    def test_its_functions_load_nothing_heavy(self, target: Target) -> None:
        """Every command of optim imports the module of its probe, and asks the probe."""
        for function in filter(None, (target.probe, target.configure)):
            heavy = imports_of(function.__module__)
            assert not heavy, f"importing {function.__module__} loads {', '.join(heavy)}: import them inside functions"

    def test_its_settings_are_understood_and_others_refused(self, target: Target, backend_class: type[Backend]) -> None:
        """What a user may write makes a target of the same backend; what nobody knows is refused with a reason."""
        if target.configure is None:
            pytest.skip("it has no settings")
        assert self.settings, "say settings = {...}: keys and values that a user may write behind its name"
        made = target.configure(dict(self.settings))
        defect = target_defect(made, PluginInfo(self.plugin or target.name, "", "", ""))
        assert not defect, f"configure {defect}"
        assert made.backend == backend_class.name, "configure must leave the backend as it is"
        assert replace(made, name=target.name).plain != target.plain, "the settings changed nothing"
        try:
            target.configure({"a-key-of-nobody": "1"})
        except OptimError as error:
            assert error.cause.strip(), "say in cause which keys there are"
            return
        except Exception as error:
            pytest.fail(f"for an unknown key it raised {type(error).__name__}: raise optim.OptimError", pytrace=False)
        pytest.fail("it took a key that nobody knows: raise optim.OptimError, with the keys there are", pytrace=False)

    def test_what_it_requires_are_passes_that_run_when_required(self, target: Target) -> None:
        """Names of passes; those that are installed have the role ``requested``."""
        wrong = [name for name in target.requires if not _PASS_NAME.fullmatch(name)]
        assert not wrong, f"requires names passes as 'plugin.kebab-case', not {', '.join(wrong)}"
        for offered in load_registry().offers(target):
            if offered.name in target.requires:
                role = getattr(offered.pass_class, "role", None)
                assert role is Role.REQUESTED, f"{offered.name} has the role {role}: requires is for passes on request"

    def test_another_process_can_be_told_it(self, target: Target) -> None:
        """Without its functions it is plain values, the same after the way through JSON."""
        try:
            there = from_wire(Target, to_wire(target.plain))
        except Exception as error:
            pytest.fail(f"it cannot be written as JSON: {error}; give it texts, numbers and tuples", pytrace=False)
        assert there == target.plain

    def test_a_model_runs_on_it(self, target: Target, backend_class: type[Backend], model_path: Path | str) -> None:
        """Where its probe says that it can be used, its backend opens and runs a model there."""
        if reason := target.unavailable():
            pytest.skip(f"it cannot be used here: {reason}")
        model = describe_model(Path(model_path))
        feeds = {
            info.name: np.ones(
                [size if isinstance(size, int) else 2 for size in info.shape or ()], dtype_of(info.dtype)
            )
            for info in model.inputs
        }
        try:
            with HeldBackend(backend_class, "").open(model, target.plain) as session:
                session.run(feeds)
                assert sum(session.executed_on.values()) > 0
        except OptimError as error:
            pytest.fail(f"its probe says that it can be used, but {error.what}: {error.cause}", pytrace=False)
