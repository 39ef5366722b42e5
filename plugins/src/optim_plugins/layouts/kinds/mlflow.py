"""The layout ``mlflow``: a model of flavor ``onnx``, as ``mlflow.onnx.save_model`` writes it.

    DIR/MLmodel             flavors, signature, session options, providers
    DIR/model.onnx          the result, with model.onnx.data where it has large weights
    DIR/requirements.txt    what the environment of a deployment needs

    mlflow.pyfunc.load_model(DIR).predict({"x": x})

MLflow hands on threads, the level of optimization, the mode of execution and config entries; switched-off optimizers
are a config entry of ONNX Runtime. Written without mlflow: a line of JSON is YAML.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.layout import Laid, Layout, Result, place_graph, require_provider
from optim_plugins.layouts.carried_settings import disabled_as_config

if TYPE_CHECKING:
    from optim import PassOptions, TensorInfo

PROVIDERS = ("CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider")
_LEVELS = {"ORT_DISABLE_ALL": 0, "ORT_ENABLE_BASIC": 1, "ORT_ENABLE_EXTENDED": 2, "ORT_ENABLE_ALL": 99}
_MODES = {"ORT_SEQUENTIAL": "SEQUENTIAL", "ORT_PARALLEL": "PARALLEL"}
_THREADS = ("intra_op_num_threads", "inter_op_num_threads")


class MLflow(Layout):
    """A model that MLflow loads, serves and registers."""

    name = "mlflow"
    summary = "a model of flavor onnx with signature and session options, for mlflow.pyfunc"
    consumer = "pip install mlflow onnx onnxruntime"
    opener = Path(__file__).parents[1] / "openers" / "mlflow.py"

    def write(self, result: Result, folder: Path, options: PassOptions) -> Laid:
        """The graph, and what MLflow reads of it."""
        require_provider(result, layout=self.name, providers=PROVIDERS)
        place_graph(result, folder / "model.onnx")
        session = disabled_as_config(result.model.session)
        told, carried = _session_options(session.session_options, session.session_config)
        provider = result.target.provider
        given = {**result.target.provider_options, **session.provider_options.get(provider, {})}
        flavor: dict[str, Any] = {
            "onnx_version": importlib.metadata.version("onnx"),
            "data": "model.onnx",
            "providers": [[provider, given] if given else provider],
            "onnx_session_options": told,
            "code": None,
        }
        requirements = [f"{name}=={importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime", "numpy")]
        lines = {
            "flavors": {"onnx": flavor, "python_function": _LOADER},
            "signature": {
                "inputs": json.dumps([_column(one) for one in result.model.inputs]),
                "outputs": json.dumps([_column(one) for one in result.model.outputs]),
                "params": None,
            },
        }
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items())
        (folder / "MLmodel").write_text(text, encoding="utf-8")
        (folder / "requirements.txt").write_text("\n".join(["mlflow", *requirements]) + "\n", encoding="utf-8")
        options_of = {provider: session.provider_options[provider]} if provider in session.provider_options else {}
        return Laid("model.onnx", type(session)(carried, session.session_config, (), options_of))


_LOADER = {"loader_module": "mlflow.onnx", "data": "model.onnx", "env": {"virtualenv": "requirements.txt"}}


def _session_options(options: Any, config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What MLflow is told, and which of a session's options that is."""
    told: dict[str, Any] = {name: options[name] for name in _THREADS if name in options}
    carried = dict(told)
    for name, words in (("graph_optimization_level", _LEVELS), ("execution_mode", _MODES)):
        if options.get(name) in words:
            told[name], carried[name] = words[options[name]], options[name]
    if config:
        told["extra_session_config"] = dict(config)
    return told, carried


def _column(info: TensorInfo) -> dict[str, Any]:
    """A tensor of a signature; a dimension that is not fixed is -1."""
    shape = [size if isinstance(size, int) else -1 for size in info.shape or ()]
    return {"type": "tensor", "tensor-spec": {"dtype": info.dtype, "shape": shape}, "name": info.name}
