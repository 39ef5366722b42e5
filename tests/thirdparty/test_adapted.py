"""Whether the kit for passes sees that an adapter is not heard as before."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optim_testing.adapted import Adapted, adapter_defect


class Session(SimpleNamespace):
    """Adds ``factor`` times the adapter to an output, beside one that is masked by infinities."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is open."""

    def run(self, feeds):
        added = self.factor * feeds["lora"] if "lora" in feeds else np.float32(0)
        return {"y": np.array([1, 2, -np.inf], np.float32) + added}


@pytest.mark.parametrize(("factor", "is_heard"), [(1, True), (0.9, True), (0, False), (-1, False), (np.nan, False)])
def test_an_adapter_that_changes_other_numbers_is_not_heard(factor, is_heard):
    before = Adapted(SimpleNamespace(factor=1, adapters=(), inputs=()), {"lora": np.ones(3, np.float32)})
    backend = SimpleNamespace(open=lambda model, target: Session(factor=model.factor))
    after = SimpleNamespace(factor=factor, adapters=(), inputs=())
    assert (adapter_defect(before, after, {}, backend, None) == "") is is_heard
