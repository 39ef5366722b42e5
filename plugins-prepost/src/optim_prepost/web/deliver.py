"""What a run for the web leaves beside the model: a page, a module, onnxruntime-web; and whether they work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from optim import OptimError, TensorInfo
from optim.backend import Check, Delivery
from optim.errors import some_of
from optim.jobs import from_wire
from optim.onnx import external_files, operator_counts
from optim_prepost import PACKAGE
from optim_prepost.compose.compose import METADATA
from optim_prepost.plans.plan import StepPlan
from optim_prepost.web.agreement import expected_of, require_equal, sample_of
from optim_prepost.web.packages import ONNXRUNTIME_WEB, require
from optim_prepost.web.settings import web_options
from optim_prepost.web.tables import judge
from optim_prepost.web.targets import WASM, WEBGPU

PAGE = Path(__file__).with_name("page")
RUNTIME: Mapping[str, tuple[str, ...]] = {
    WASM: ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    WEBGPU: ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm"),
}
"""Files of onnxruntime-web that the page loads, by what the model is made for; the first is its module."""

_LOADS: Mapping[str, str] = {
    WASM: f"export * as ort from './ort/{RUNTIME[WASM][0]}';\nexport const provider = '{WASM}';\n",
    WEBGPU: (
        "// where the browser has no WebGPU the build for WASM is taken: that for WebGPU lacks kernels there\n"
        f"export const provider = (await navigator.gpu?.requestAdapter()) ? '{WEBGPU}' : '{WASM}';\n"
        f"const names = {{ {WEBGPU}: '{RUNTIME[WEBGPU][0]}', {WASM}: '{RUNTIME[WASM][0]}' }};\n"
        "export const ort = await import(`./ort/${names[provider]}`);\n"
    ),
}
"""``runtime.mjs`` of the page."""

_MOST_WORDS = 10_000_000
"""A vocabulary of today has a quarter of a million words; a number beyond would be that many empty lines."""

_NAMES = {"webgpu": "WebGPU", "webnn": "WebNN"}


def deliver(delivery: Delivery) -> tuple[Check, ...]:
    """Write the page, and open what was written in Node and in Chromium.

    Raises:
        OptimError[page-differs]: the delivered folder gives other outputs than the model that was judged.
    """
    plan = plan_of(delivery.model.ir().metadata_props)
    write_page(delivery, plan)
    checks = [_in_node(delivery, plan)]
    from optim_prepost.web.chromium import check_in_chromium

    checks.append(check_in_chromium(delivery, plan))
    return (*checks, *_by_tables(delivery))


def plan_of(metadata: Mapping[str, str]) -> StepPlan | None:
    """The plan that a composed model carries; None where it was not composed.

    The model may be anybody's: a file that its plan names is not read, be it a vocabulary or samples.

    Raises:
        OptimError[bad-plan]: what the model carries is no plan.
    """
    if METADATA not in metadata:
        return None
    try:
        plan = from_wire(StepPlan, json.loads(metadata[METADATA])["plan"])
        words = plan.task.get("tokenizer", {}).get("vocab_or_file")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OptimError(
            "bad-plan",
            "the steps in the model are not known",
            f"its metadata '{METADATA}' is not a plan of prepost.append: {type(error).__name__}",
            "compose the model again: optim run MODEL -o DIR --with prepost.append:...",
            PACKAGE,
        ) from error
    task = plan.task if _is_vocabulary(words) else {key: plan.task[key] for key in plan.task if key != "tokenizer"}
    return replace(plan, task=task, samples="")


def _is_vocabulary(words: object) -> bool:
    """Words with numbers that a list of lines can have."""
    return isinstance(words, dict) and all(
        type(number) is int and 0 <= number < _MOST_WORDS for number in words.values()
    )


def write_page(delivery: Delivery, plan: StepPlan | None) -> None:
    """``index.html``, its modules, ``plan.json``, the vocabulary, and onnxruntime-web in ``ort/``."""
    folder, provider = delivery.folder, delivery.target.made_for
    modules = [path for path in PAGE.iterdir() if path.name != "tokenizer.mjs"]
    task = dict(plan.task) if plan else {}
    tokenizer = task.pop("tokenizer", None) if task.get("input") == "ids" else None
    if tokenizer:
        words = {number: word for word, number in tokenizer["vocab_or_file"].items()}
        lines = [words.get(number, "") for number in range(max(words, default=-1) + 1)]
        (folder / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")
        task["tokenizer"] = {name: tokenizer[name] for name in ("do_lower_case", "strip_accents")}
        modules.append(PAGE / "tokenizer.mjs")
    for path in modules:
        shutil.copyfile(path, folder / path.name)
    about = {
        "preset": plan.preset if plan else "",
        "task": task,
        "inputs": [_port(info) for info in delivery.model.inputs],
        "external": sorted(external_files(folder / "model.onnx")),
        "session": web_options(delivery.model.session),
        "runtime": "@".join(ONNXRUNTIME_WEB),
    }
    (folder / "plan.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    package = require(ONNXRUNTIME_WEB)
    (folder / "ort").mkdir(exist_ok=True)
    (folder / "runtime.mjs").write_text(_LOADS[provider], encoding="utf-8")
    for name in (*RUNTIME[provider], *(RUNTIME[WASM] if provider != WASM else ())):
        shutil.copyfile(package / "dist" / name, folder / "ort" / name)


def _in_node(delivery: Delivery, plan: StepPlan | None) -> Check:
    """The delivered files themselves, opened once more."""
    from optim_prepost.web.node_session import NodeSession

    feeds = sample_of(delivery, plan)
    with NodeSession(delivery.folder / "model.onnx", web_options(delivery.model.session)) as session:
        drift = require_equal(expected_of(delivery, feeds), session.run(feeds), "under Node")
    return Check("opens under Node", "passed", f"onnxruntime-web {ONNXRUNTIME_WEB[1]} on WASM, drift {drift:.2g}")


def _by_tables(delivery: Delivery) -> list[Check]:
    """WebGPU and WebNN are not run: the runtime's own tables say which operators they have."""
    operators, opset = operator_counts(delivery.model.path), delivery.model.opset.get("", 1)
    checks = []
    for provider in ("webgpu", "webnn"):
        found = judge(provider, operators, opset)
        names = some_of(found.missing, 6)
        rest = f"{len(found.missing)} of {found.operators} kinds of operators would run on WASM: {names}"
        text = f"judged by the table of onnxruntime-web {found.version}, not run: "
        text += rest if found.missing else f"it has all {found.operators} kinds of operators"
        checks.append(Check(_NAMES[provider], "not-run", text))
    return checks


def _port(info: TensorInfo) -> dict[str, Any]:
    dims = [size if size is not None else f"{info.name}_{place}" for place, size in enumerate(info.shape or ())]
    return {"name": info.name, "dtype": {"str": "string"}.get(info.dtype, info.dtype), "dims": dims}
