"""Tests of the plugin openvino are skipped where OpenVINO cannot be used, with its reason."""

from __future__ import annotations

import pytest

from optim_openvino.runtime.installed import missing

_REASON = missing()


def pytest_runtest_setup(item):
    """Skip before anything is made for the test."""
    if _REASON is not None:
        pytest.skip(_REASON)
