"""The source itself, run in torch: what ``optim bench --beside`` times."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.source import SourceRequest
from optim.target import Target
from optim_plugins.torch.sources.torch_backend import TARGETS, TorchBackend

pytestmark = pytest.mark.slow


def feeds(length: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((3, length, 4)).astype(np.float32)
    return {"x": x, "scale": np.full((3, 1, 1), 2, np.float32)}


def target(mode: str, **options: str) -> Target:
    found = next(each for each in TARGETS if each.provider == mode)
    return replace(found, probe=None, provider_options={**found.provider_options, **options})


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch, importing what compiles
@pytest.mark.parametrize("mode", ["eager", "script", "compile"])
def test_it_gives_what_the_module_gives(mode: str) -> None:
    if mode == "compile" and not shutil.which("g++"):
        pytest.skip("torch.compile needs g++")
    import torch
    from torch_factories import several_examples

    asked = json.dumps(to_wire(SourceRequest(f"{several_examples.__module__}:several_examples")))
    session = TorchBackend().open(None, target(mode, source=asked, component=""))  # type: ignore[arg-type]
    module, _ = several_examples()
    for length in (6,) if mode == "compile" else (6, 1, 9):  # each length is compiled anew, for ten seconds
        outputs = session.run(feeds(length))
        with torch.inference_mode():
            expected = module.eval()(*(torch.from_numpy(array) for array in feeds(length).values()))
        assert set(outputs) == set(expected)
        for name, array in outputs.items():
            assert np.allclose(array, expected[name].numpy(), atol=1e-6)
    session.close()


def test_what_was_not_exported_has_no_source_to_run() -> None:
    with pytest.raises(OptimError) as caught:
        TorchBackend().open(None, target("eager"))  # type: ignore[arg-type]
    assert caught.value.reference == "not-a-source" and "--beside torch-eager" in caught.value.fix
