"""The source itself, run in torch: what ``optim bench --beside`` times."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from optim import OptimError, SourceRequest, Target
from optim.jobs import to_wire
from optim_plugins.torch.sources.torch_backend import TorchBackend
from optim_plugins.torch.sources.torch_targets import torch_targets

pytestmark = pytest.mark.slow


def feeds(length: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((3, length, 4)).astype(np.float32)
    return {"x": x, "scale": np.full((3, 1, 1), 2, np.float32)}


def target(mode: str, **options: str) -> Target:
    found = next(each for each in torch_targets() if each.provider == mode)
    return replace(found, probe=None, provider_options={**found.provider_options, **options})


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch, importing what compiles
@pytest.mark.parametrize("mode", ["eager", "script", "compile"])
def test_it_gives_what_the_module_gives(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "compile" and not shutil.which("g++"):
        pytest.skip("torch.compile needs g++")
    import torch
    from torch_factories import several_examples

    if mode == "compile":
        import torch._inductor.config as inductor

        # precompiled headers and a look for vector instructions cost g++ five times what the module does
        monkeypatch.setattr(inductor, "cpp_cache_precompile_headers", False)
        monkeypatch.setattr(inductor.cpp, "vec_isa_ok", False)
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


def test_it_keeps_to_the_threads_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch_factories import several_examples

    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    asked = json.dumps(to_wire(SourceRequest(f"{several_examples.__module__}:several_examples")))
    there = target("eager", source=asked, component="")
    for threads in (0, 1):
        TorchBackend().open(None, replace(there, threads=threads)).close()  # type: ignore[arg-type]
    assert told == [1]


def test_what_was_not_exported_has_no_source_to_run() -> None:
    with pytest.raises(OptimError) as caught:
        TorchBackend().open(None, target("eager"))  # type: ignore[arg-type]
    assert caught.value.reference == "not-a-source" and "--beside torch-eager" in caught.value.fix


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("bfloat16", 5e-2)])
def test_a_type_that_is_asked_for_is_computed_in_and_not_returned(dtype: str, tolerance: float) -> None:
    from torch_factories import several_examples

    asked = json.dumps(to_wire(SourceRequest(f"{several_examples.__module__}:several_examples")))
    told = {"source": asked, "component": ""}
    exact, half = (TorchBackend().open(None, target("eager", **told, **more)) for more in ({}, {"dtype": dtype}))  # type: ignore[arg-type]
    expected, found = exact.run(feeds(6)), half.run(feeds(6))
    for name, array in expected.items():
        assert found[name].dtype == np.float32
        assert 0 < np.abs(found[name] - array).max() < tolerance * np.abs(array).max()
    assert len(half.time_runs(feeds(6), 3)) == 3 and half.peak_memory_bytes() is None


def test_device_and_type_stand_behind_the_name() -> None:
    plain = next(each for each in torch_targets() if each.name == "torch-compile")
    assert plain.configure is not None
    found = plain.configure({"device": "cuda", "dtype": "float16"})
    assert found.provider_options == {"device": "cuda", "dtype": "float16"} and "GPU" in found.device
    for wrong, reference in (({"devise": "cuda"}, "unknown-target-setting"), ({"dtype": "int8"}, "bad-target-setting")):
        with pytest.raises(OptimError) as caught:
            plain.configure(wrong)
        assert caught.value.reference == reference


def test_without_a_gpu_torch_on_cuda_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch has a GPU here")
    cuda = next(each for each in torch_targets() if each.name == "torch-eager").configure({"device": "cuda"})  # type: ignore[misc]
    with pytest.raises(OptimError) as caught:
        TorchBackend().open(None, replace(cuda, provider_options={**cuda.provider_options, "source": "{}"}))  # type: ignore[arg-type]
    assert caught.value.reference == "target-unavailable" and "finds no GPU" in caught.value.cause
    if torch.version.cuda is None:
        assert "build for the CPU" in (cuda.unavailable() or "")
