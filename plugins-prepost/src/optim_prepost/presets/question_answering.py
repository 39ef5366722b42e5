"""``question-answering``: a question and a text in; out natively the answer, for the web where it begins and ends."""

from __future__ import annotations

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.presets.images import scores_output
from optim_prepost.presets.request import Request
from optim_prepost.presets.texts import TOKENS, place_of, text_steps


def make_plan(request: Request) -> StepPlan:
    """``[tokenizer] -> model -> best start and end -> [text between them]``."""
    ports, pre, task = text_steps(request, pair=True)
    for place in (0, 1):
        scores_output(request, place, 2, "scores [batch, tokens] of the beginning of an answer, and scores of its end")
    results: tuple[PlanResult, ...]
    if task["input"] == "ids":
        post = PlannedStep("AnswerSpan")
        results = (PlanResult("start", "AnswerSpan", 0), PlanResult("end", "AnswerSpan", 1))
    else:
        link = Link(TOKENS, place_of(request, "input_ids"), 2)
        param = {"tokenizer_param": {"type": "TokenizerParam", "params": task["tokenizer"]}}
        post = PlannedStep("BertTokenizerQADecoder", param, "Answer", (link,))
        results = (PlanResult("answer", "Answer"),)
    return StepPlan(ports, tuple(pre), (post,), results, request.options.target_opset, "question-answering", task)
