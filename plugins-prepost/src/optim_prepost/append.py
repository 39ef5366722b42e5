"""``prepost.append``: pre- and post-processing steps inside the model.

Before::

    pixel_values [1, 3, 224, 224] -> [model] -> logits [1, 1000]

After, with the preset ``image-classification``::

    image (bytes of a PNG or JPEG file) -> decode, resize, normalize -> [model] -> softmax, top k -> scores, labels

It only runs if ``--with`` names it. optim compares it with an implementation of the same steps in Pillow, NumPy and
tokenizers, and times it against the original with the same steps. See ``compose`` for the graph.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from optim_prepost.compose.compose import Composed
    from optim_prepost.plans.append_options import AppendOptions
    from optim_prepost.plans.plan import StepPlan

_WEB_BACKEND = "ort-web"


class Append(Pass):
    """Steps before and after the model."""

    name = "prepost.append"
    summary = "puts pre- and post-processing into the model: images, text or sound in; labels, boxes or vectors out"
    options = "optim_prepost.plans.append_options:AppendOptions"
    role = Role.REQUESTED
    recasts = True

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Unless the model has such steps already."""
        from optim_prepost.compose.compose import METADATA

        composed = METADATA in model.ir().metadata_props
        return Applicable.no("the model has pre- or post-processing steps already") if composed else APPLICABLE

    def refuse(self, options: AppendOptions, target: Target) -> None:
        """Steps with operators that a browser does not have."""
        if target.backend == _WEB_BACKEND:
            from optim_prepost.web.web_refusal import refuse_options

            refuse_options(options)

    def runs_code(self, options: AppendOptions) -> tuple[str, ...]:
        """Steps, and classes of their parameters, that are not in the catalog."""
        from optim_prepost.plans.catalog import KINDS

        steps = [kind for step in (*(options.pre or ()), *(options.post or ())) for kind in step]
        own = [kind for kind in steps if kind not in KINDS]
        return tuple(own + [kind for kind in _types_in([options.pre, options.post]) if "." in kind or ":" in kind])

    def candidates(self, model: Model, target: Target, context: Context) -> Sequence[AppendOptions]:
        """None: the task has to be said."""
        self.refuse_without_options()
        return ()

    def refuse_without_options(self) -> None:
        """The task has to be said."""
        from optim import OptimError
        from optim_prepost import PACKAGE

        raise OptimError.usage(
            "no-task",
            "prepost.append does not know the task",
            "it was named without options such as a preset",
            "optim run MODEL -o DIR --with \"prepost.append:preset='image-classification'\"",
            PACKAGE,
        )

    def apply(self, model: Model, options: AppendOptions, context: Context) -> PassResult:
        """Raise the opset where the steps need it, and put the steps around the model."""
        import onnx_ir as ir

        from optim_prepost.compose.compose import METADATA, compose
        from optim_prepost.reference.compared_interface import interface_of
        from optim_prepost.reference.run import without_counterpart
        from optim_prepost.web.web_refusal import refuse_custom

        plan = _plan_for(model, options, context.target)
        if context.target.backend == _WEB_BACKEND:
            refuse_custom([step.kind for step in plan.steps])
        graph, notes = _raised(model, plan)
        composed = compose(plan, ir.serde.serialize_model(graph))
        if context.target.backend == _WEB_BACKEND:
            _refuse_other_domains(composed)
        known = composed.model.metadata_props.add()
        known.key, known.value = METADATA, json.dumps(_metadata(plan, composed), sort_keys=True)
        made = ir.serde.deserialize_model(composed.model)
        ir.external_data.set_base_dir(made.graph, context.store)
        notes += [f"step {name} has no counterpart: compared with itself" for name in without_counterpart(plan)]
        notes += _compared_on(plan) + _not_said(options, plan)
        return PassResult(
            context.save(made, model),
            changed=True,
            notes=tuple(notes),
            counts=composed.nodes,
            interface=interface_of(plan, composed),
        )


def _plan_for(model: Model, options: AppendOptions, target: Target) -> StepPlan:
    """The plan that the options ask for.

    Raises:
        OptimError: as presets and lists of steps do.
    """
    from dataclasses import replace

    from optim_prepost.plans.olive_lists import explicit_plan
    from optim_prepost.plans.settings import read_settings
    from optim_prepost.plans.tool_commands import as_preset
    from optim_prepost.presets import preset_plan
    from optim_prepost.presets.request import Request

    chosen = as_preset(options) if options.tool_command else options
    if chosen.preset is None:
        return explicit_plan(chosen, model.inputs, model.outputs)
    web = target.backend == _WEB_BACKEND
    request = Request(chosen, read_settings(chosen.settings), model.inputs, model.outputs, web)
    return replace(preset_plan(request), samples=chosen.samples or "")


def _raised(model: Model, plan: StepPlan) -> tuple[ir.Model, list[str]]:
    """The model's graph in an opset that the steps can be written in."""
    from optim import ExitStatus, OptimError
    from optim_prepost import PACKAGE

    graph, opset = model.ir(), model.opset.get("", 0)
    if opset >= plan.opset:
        return graph, []
    from onnxscript.version_converter import convert_version

    why = "the converter refused"
    try:
        convert_version(graph, plan.opset, fallback=True)
        reached = graph.opset_imports[""]
    except Exception as error:  # a converter that has no rule for an operator raises anything
        reached, why = opset, " ".join(str(error).split())[-200:]
    if reached != plan.opset:
        raise OptimError(
            "opset-not-raised",
            f"the steps need opset {plan.opset}, the model has {opset}",
            why,
            f"export the model with opset_version={plan.opset}",
            PACKAGE,
            ExitStatus.NOT_HELD,
        )
    return graph, [f"the model was raised from opset {opset} to {plan.opset}, which the steps are written in"]


def _metadata(plan: StepPlan, composed: Composed) -> dict[str, Any]:
    """What a page, or whoever opens the model, can read of the steps, without files of this machine."""
    from dataclasses import replace

    from optim.jobs import to_wire
    from optim_prepost.plans.settings import read_vocabulary

    task = dict(plan.task)
    if tokenizer := task.get("tokenizer"):
        task["tokenizer"] = {**tokenizer, "vocab_or_file": read_vocabulary(str(tokenizer["vocab_or_file"]))}
    kept = replace(plan, task=task, samples="")
    return {"plan": to_wire(kept), "results": to_wire(composed.results)}


def _refuse_other_domains(composed: Composed) -> None:
    """A step of the user's own may bring a custom operator too."""
    from optim import ExitStatus, OptimError
    from optim_prepost import PACKAGE
    from optim_prepost.compose.compose import CONTRIB, DOMAIN, PREFIX

    for node in composed.model.graph.node:
        if node.domain in (DOMAIN, CONTRIB):
            step = node.name.removeprefix(PREFIX).rpartition("_")[0]
            raise OptimError(
                "not-for-web",
                f"step {step} cannot run in onnxruntime-web",
                f"it needs the operator {node.domain}:{node.op_type}, which onnxruntime-web does not have",
                "write the step with standard operators",
                PACKAGE,
                ExitStatus.NOT_HELD,
            )


def _not_said(options: AppendOptions, plan: StepPlan) -> list[str]:
    """That a folder says nothing of images or sound, which are then prepared by the preset's defaults."""
    from optim_prepost.plans.settings import PREPROCESSOR, read_settings

    textual = plan.task.get("input") in ("text", "ids")
    if options.settings is None or textual or read_settings(options.settings).preprocessor:
        return []
    return [f"{options.settings} has no {PREPROCESSOR}: factor, mean and size are the preset's unless you gave them"]


def _compared_on(plan: StepPlan) -> list[str]:
    """That samples were made, where the user gave none."""
    return [] if plan.samples else ["compared on made samples; give your own: samples = a folder or a text file"]


def _types_in(value: Any) -> list[str]:
    """Every ``{"type": name}`` inside lists and mappings."""
    if isinstance(value, dict):
        own = [value["type"]] if isinstance(value.get("type"), str) else []
        return own + [name for inner in value.values() for name in _types_in(inner)]
    if isinstance(value, list | tuple):
        return [name for inner in value for name in _types_in(inner)]
    return []
