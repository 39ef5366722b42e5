"""Where a graph is held against its source."""

from __future__ import annotations

from optim.onnx.sessions import PLAIN_CPU
from optim.providers.names import CUDA, TENSORRT
from optim.target import Target
from optim_plugins.export.check_job import checked_on


def test_graphs_for_a_gpu_are_checked_there_and_all_others_on_the_cpu() -> None:
    first = Target("cuda:device=1", "cuda", CUDA, {"device_id": "1"})
    behind = Target("tensorrt", "tensorrt", TENSORRT, {"device_id": "1"}, also={CUDA: {"device_id": "1"}})
    for target in (first, behind):
        place = checked_on(target)
        assert (place.provider, place.provider_options, place.also) == (CUDA, {"device_id": "1"}, {})
        assert place.fallback, "a node that is left to the CPU is the run's question, not the export's"
    prepared = Target("cuda-offline", "cuda-offline", "CPUExecutionProvider", prepares_for=CUDA)
    assert checked_on(prepared) == checked_on(Target("web", "web", runtime="onnxruntime-web")) == PLAIN_CPU
