"""Models of this folder are tiny: what is dear is to trace them, so each is exported once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from exporting import Exported


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Another thread would only wait: a model takes less than a millisecond."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def operators_are_read_once() -> Iterator[None]:
    """Each export begins with the source of torch's 497 operators in onnxscript, half of the time of a small one."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401 - its operators are among those that are read
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(scope="session", autouse=True)
def operators_are_not_looked_up() -> Iterator[None]:
    """With shapes that are symbols, torch's memory of operators is dearer than they: a sixth of an export."""
    import torch._dynamo

    with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
        yield


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """The export of one of ``tiny_models``, by its name."""
    from exporting import export
    from tiny_models import save

    @cache
    def made(name: str) -> Exported:
        folder = tmp_path_factory.mktemp(name)
        return export(save(name, folder / "source"), folder)

    return made
