"""How the gate compares a composed model: functions that ``optim.passes.Interface`` names."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optim import Interface
from optim.arrays import Feeds, Outputs
from optim.jobs import from_wire, to_wire
from optim_prepost.compose.compose import Composed
from optim_prepost.plans.plan import StepPlan
from optim_prepost.reference.arrays import Array

_PIXELS, _COARSE = 2e-2, 5e-2
"""Drift. Resizing on uint8 differs from Pillow by one grey level, and those of a picture deviate from its mean by some
fifty. Coarse: two encoders of JPEG, and places on the border of two classes."""

_RESIZES = ("Resize", "ResizeImage", "LetterBox", "ConvertBGRToImage")


def interface_of(plan: StepPlan, composed: Composed) -> Interface:
    """The interface of a model that was composed from a plan."""
    here = __name__
    resizes = any(step.kind in _RESIZES for step in plan.steps)
    encoders = [step for step in plan.post if step.kind == "ConvertBGRToImage"]
    coarse = any(step.params.get("image_format", "jpg") == "jpg" for step in encoders)
    coarse |= any(step.kind == "LabelMap" for step in plan.post)
    parameters = {
        "plan": to_wire(plan),
        "joins": to_wire(composed.joins),
        "results": to_wire(composed.results),
        "tokenizes": any(step.kind.endswith("Tokenizer") for step in plan.pre),
    }
    return Interface(
        parameters=parameters,
        raw=f"{here}:raw",
        given=f"{here}:given",
        expected=f"{here}:expected",
        outputs=f"{here}:comparable",
        tolerance=_COARSE if coarse else _PIXELS if resizes else 0.0,
    )


def raw(plan: Mapping[str, Any], **_: Any) -> Sequence[Feeds]:
    """Raw samples: the user's, or made ones."""
    from optim_prepost.reference.samples import raw_samples

    return raw_samples(from_wire(StepPlan, plan))


def given(feeds: Feeds, plan: Mapping[str, Any], joins: Sequence[tuple[str, int]], **_: Any) -> Feeds:
    """What the model inside is fed for one raw sample."""
    from optim_prepost.reference.run import before_model, fed

    known = from_wire(StepPlan, plan)
    return fed(known, before_model(known, feeds), feeds, joins)


def expected(
    outputs: Outputs, feeds: Feeds, plan: Mapping[str, Any], results: Sequence[tuple[str, str, int]], **_: Any
) -> Outputs:
    """What the composed model must give, from the outputs of the model inside."""
    from optim_prepost.reference.run import after_model, before_model

    known = from_wire(StepPlan, plan)
    values = after_model(known, before_model(known, feeds), outputs)
    own = list(outputs.values())
    found = {name: values[label][place] if label else own[place] for name, label, place in results}
    return comparable(found, plan, results)


def comparable(outputs: Outputs, plan: Mapping[str, Any], results: Sequence[tuple[str, str, int]], **_: Any) -> Outputs:
    """Outputs as they are compared.

    The file of an image as its pixels, for no two encoders give the same bytes; pixels as floats, for their grey levels
    are rounded amounts; an answer put together from pieces of words without its spaces, for decoders differ
    in those around an apostrophe.
    """
    kinds = {step.name: step.kind for step in from_wire(StepPlan, plan).steps}
    of_output = {name: kinds[label] for name, label, _ in results if label}
    return {name: _AS_COMPARED.get(of_output.get(name, ""), _same)(array) for name, array in outputs.items()}


def _pixels(array: Array) -> Array:
    from PIL import Image

    with Image.open(io.BytesIO(np.asarray(array).tobytes())) as opened:
        return _levels(np.asarray(opened.convert("RGB")))


def _levels(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.uint8 else array


def _without_spaces(array: Array) -> Array:
    return np.array([str(text).replace(" ", "") for text in np.asarray(array).ravel()], dtype=object)


def _same(array: Array) -> Array:
    return array


_AS_COMPARED = {
    "ConvertBGRToImage": _pixels,
    "BertTokenizerQADecoder": _without_spaces,
    **dict.fromkeys(("FloatToImageBytes", "YCbCrToPixels", "Resize", "CenterCrop", "LetterBox"), _levels),
}
