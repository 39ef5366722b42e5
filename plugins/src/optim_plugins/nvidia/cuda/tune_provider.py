"""``cuda.tune-provider``: how ONNX Runtime's CUDA provider computes.

Each setting is proposed alone; the search races them, drops what is beaten, and tries together what won. On a machine
without a GPU they change nothing that could be measured, so nothing is proposed there: what is named is written.

Strict mode (``strict_skip_layer_norm``) is not proposed, for two reasons. Settings are tuned on models that met the
budget, so a proposal would never reach a float16 model that broke it. And strict mode hardly changes the drift. We
emulated both kinds of sums in numpy, on a small float16 GPT-2. Sums in half gave a relative error of 0.0015, sums in
float32 one of 0.0012. Strict mode matters if the mean square of a row exceeds 65504, the largest half. One hidden value
of 8000 among 768 loses the whole row. Name the option for such a decoder. No GPU has run this
(``tests/plugins/nvidia/test_strict_mode.py``).

Options: https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import Context, Model, PassResult, SessionConfig, Target
from optim.providers import CUDA
from optim_plugins.nvidia.gpu.provider_settings import ProviderSettings

if TYPE_CHECKING:
    from optim_plugins.nvidia.cuda.tune_provider_options import TuneProviderOptions

_KEYS = {
    "conv_workspace": "cudnn_conv_use_max_workspace",
    "prefer_nhwc": "prefer_nhwc",
    "fuse_conv_bias": "fuse_conv_bias",
    "tf32": "use_tf32",
    "cuda_graph": "enable_cuda_graph",
    "strict_skip_layer_norm": "enable_skip_layer_norm_strict_mode",
    "copy_in_default_stream": "do_copy_in_default_stream",
    "one_stream": "use_ep_level_unified_stream",
}
"""The provider's names of the settings that are on or off."""

_ARENAS = {"next-power-of-two": "kNextPowerOfTwo", "same-as-requested": "kSameAsRequested"}
_BOUND = (
    "a CUDA graph reads and writes the buffers of its first run: run the model with IO binding, on the same buffers "
    "each time; a plain session.run may give the results of another input"
)


class TuneProvider(ProviderSettings):
    """Convolution search, layout, TF32, arena, streams, CUDA graphs."""

    name = "cuda.tune-provider"
    summary = "tries settings of the CUDA provider: convolution search and layout, TF32, arena, streams, CUDA graphs"
    options = "optim_plugins.nvidia.cuda.tune_provider_options:TuneProviderOptions"
    hardware = "a GPU of NVIDIA's"

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[TuneProviderOptions]:
        """One setting at a time, those that help more often first; nothing that changes what is computed."""
        from optim.onnx import operator_counts
        from optim_plugins.nvidia.cuda.tune_provider_options import TuneProviderOptions

        if "Conv" in operator_counts(model.path):
            yield TuneProviderOptions(prefer_nhwc=True)
            yield TuneProviderOptions(conv_search="heuristic")
            yield TuneProviderOptions(fuse_conv_bias=True)
        yield TuneProviderOptions(copy_in_default_stream=False)
        yield TuneProviderOptions(tunable_ops=True)
        yield TuneProviderOptions(arena="same-as-requested")

    def apply(self, model: Model, options: TuneProviderOptions, context: Context) -> PassResult:
        """Lay the settings over the model's."""
        chosen = provider_options(options)
        tuned = model.with_session(SessionConfig(provider_options={CUDA: chosen} if chosen else {}))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has these settings already",))
        notes = (_BOUND,) if options.cuda_graph else ()
        return PassResult(tuned, changed=True, notes=notes, counts={"settings": len(chosen)})


def provider_options(options: TuneProviderOptions) -> dict[str, str]:
    """The provider's own names and values."""
    flags = {key: getattr(options, name) for name, key in _KEYS.items()}
    found = {key: str(int(value)) for key, value in flags.items() if value is not None}
    if options.conv_search is not None:
        found["cudnn_conv_algo_search"] = options.conv_search.upper()
    if options.arena is not None:
        found["arena_extend_strategy"] = _ARENAS[options.arena]
    if options.tunable_ops is not None:
        found["tunable_op_enable"] = found["tunable_op_tuning_enable"] = str(int(options.tunable_ops))
    return found
