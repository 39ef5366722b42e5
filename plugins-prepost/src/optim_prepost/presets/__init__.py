"""One plan for each common task. A preset reads options and settings, and looks at the model's inputs and outputs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from optim_prepost.plans.plan import StepPlan
from optim_prepost.presets.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = {
    "image-classification": "classification",
    "object-detection": "detection",
    "segmentation": "segmentation",
    "super-resolution": "super_resolution",
    "text-embedding": "embedding",
    "text-classification": "text_classification",
    "question-answering": "question_answering",
    "speech": "speech",
}


def preset_plan(request: Request) -> StepPlan:
    """The plan of the preset that the options name.

    Raises:
        OptimError[preset-does-not-fit]: the model has other inputs or outputs than the task.
        OptimError[bad-settings]: a file cannot be used.
    """
    assert request.options.preset is not None
    module = importlib.import_module(f"optim_prepost.presets.{_MODULES[request.options.preset]}")
    make: Callable[[Request], StepPlan] = module.make_plan
    return make(request)
