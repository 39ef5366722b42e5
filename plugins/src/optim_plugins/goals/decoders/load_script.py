"""What ``load.py`` has beside ``load`` for a decoder: ``generate``.

On onnxruntime the past lies in buffers, where the graph says that it may. On a runtime of its own each step returns a
longer past, which the next step is fed. Tokens are chosen by the code that ``optim.load`` chooses by: its text is taken
over.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from optim.decoders import LOGITS
from optim.engine.goals import carried_by_name, file_shares_past
from optim.model import Model
from optim_plugins.goals.decoders.interface import interface_of
from optim_plugins.goals.decoders.sampling import Sampling, choose
from optim_plugins.goals.decoders.steps import MADE

_NAMES = """\
import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from numpy.typing import NDArray
"""

_ARRAY = "Array = np.ndarray\n\n\n"

_BUFFERS = '''\
class Steps:
    """A past in buffers that are bound once as inputs and as outputs: a step adds to them and copies nothing."""

    def __init__(self, session, rows, tokens):
        self.session, self.binding = session, session.io_binding()
        self.binding.bind_output("logits")  # first, so that it is the first of the outputs
        for past, present, shape, kind in past_of(session, rows, tokens):
            buffer = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, kind))
            self.binding.bind_ortvalue_input(past, buffer)
            self.binding.bind_ortvalue_output(present, buffer)
        if "num_logits_to_keep" in {value.name for value in session.get_overridable_initializers()}:
            one = ort.OrtValue.ortvalue_from_numpy(np.array(1, np.int64))
            self.binding.bind_ortvalue_input("num_logits_to_keep", one)  # the last token's alone

    def advance(self, fresh):
        """Logits of new tokens."""
        for name, array in fresh.items():
            self.binding.bind_cpu_input(name, array)
        self.binding.bind_output("logits")
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[0].numpy()


'''

_GROWING = '''\
class Steps:
    """A past that each step returns, longer by its tokens; the next step is fed it."""

    def __init__(self, session, rows, tokens):
        self.session = session
        past_of(session, rows, tokens)  # refuses what the memory has no room for in the end
        empty = past_of(session, rows, 0)
        self.presents = {present: past for past, present, _, _ in empty}
        self.past = {past: np.zeros(shape, kind) for past, _, shape, kind in empty}

    def advance(self, fresh):
        """Logits of new tokens."""
        logits, *grown = self.session.run(["logits", *self.presents], {**self.past, **fresh})
        self.past = dict(zip(self.presents.values(), grown, strict=True))
        return logits


'''

_GENERATE = '''\
def exported():
    """What export.json says; nothing where there is none."""
    with suppress(OSError):
        return json.loads((Path(__file__).parent / "export.json").read_text(encoding="utf-8"))
    return {}


def free_bytes():
    """Memory that may be taken, where the system says so in /proc; else None."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return None


def past_of(session, rows, tokens):
    """Of each past of so many tokens: the input that takes it, the output that gives it, its shape and its type."""
    taken, wanted = {value.name: value for value in session.get_inputs()}, []
    components = exported().get("components", {}).values()
    state = {name: past for one in components for name, past in one.get("state", {}).items()} or carried_by_name(
        taken, [one.name for one in session.get_outputs()]
    )
    for present, past in state.items():
        sizes = taken[past].shape
        named = [at for at, size in enumerate(sizes) if not isinstance(size, int)]
        batch = next((at for at in named if "batch" in str(sizes[at])), named[0] if named else 0)
        shape = [size if isinstance(size, int) else tokens for size in sizes]
        shape[batch] = rows
        kind = taken[past].type.removeprefix("tensor(").removesuffix(")")  # float, float16, int8 or uint8
        wanted.append((past, present, shape, np.dtype("float32" if kind == "float" else kind)))
    needed, free = sum(kind.itemsize * math.prod(shape) for _, _, shape, kind in wanted), free_bytes()
    if free is not None and needed > free:
        raise MemoryError(f"the past takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: ask for less")
    return wanted


def generate(prompts, max_new_tokens=64, stop=(), session=None, sampling=None, seed=0, pad=0):
    """New tokens as they come: of one prompt a number each time, of several prompts a list with one for each.

    A prompt is a list of ids; several may differ in length. A row ends at a token of stop, and gets pad from then on.
    The likeliest token is taken, or drawn: sampling=Sampling(greedy=False, temperature=0.8, top_k=50, top_p=0.95).
    """
    if max_new_tokens < 0 or seed < 0:
        raise ValueError(f"max_new_tokens and seed are 0 or more, not {max_new_tokens} and {seed}")
    if isinstance(prompts, str) or any(isinstance(one, str) for one in prompts):
        raise ValueError("a prompt is a list of ids, and no text: tokenizer.json makes them")
    session, sampling = session or load(), sampling or Sampling()
    several = len(prompts) > 0 and np.ndim(prompts[0]) > 0
    rows = [np.asarray(row, np.int64) for row in (prompts if several else [prompts])]
    if not rows or any(not row.size for row in rows):
        raise ValueError("a prompt holds no tokens")
    if any(np.asarray(one).dtype.kind not in "iu" for one in (prompts if several else [prompts])):
        raise ValueError("ids of tokens are whole numbers")
    words = next(value.shape[-1] for value in session.get_outputs() if value.name == "logits")
    if strange := [one for row in rows for one in row if one < 0 or (isinstance(words, int) and one >= words)]:
        raise ValueError(f"{strange[0]} is no token of the model, which has {words}")
    longest, room = max(row.size for row in rows), exported().get("facts", {}).get("context")
    if room and longest + max_new_tokens > room:
        raise ValueError(f"{longest} tokens and {max_new_tokens} new ones are more than the model's context of {room}")
    ids, mask = np.full((len(rows), longest), pad), np.zeros((len(rows), longest), np.int64)
    for index, row in enumerate(rows):
        ids[index, longest - row.size :], mask[index, longest - row.size :] = row, 1
    taken = {value.name for value in session.get_inputs()}
    if not mask.all() and "attention_mask" not in taken:
        raise ValueError("the model takes no attention_mask: prompts of several lengths go one at a time")
    steps = Steps(session, len(rows), longest + max_new_tokens)
    random, ended = np.random.default_rng(seed), np.zeros(len(rows), bool)
    for _ in range(max_new_tokens):
        positions = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, -ids.shape[1] :]
        fresh = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        fresh["use_cache_branch"] = np.array([mask.shape[1] > ids.shape[1]])
        logits = steps.advance({name: np.ascontiguousarray(fresh[name]) for name in fresh.keys() & taken})
        tokens = np.where(ended, pad, choose(logits[:, -1], sampling, random))
        yield tokens.tolist() if several else int(tokens[0])
        ended |= np.isin(tokens, stop)
        if ended.all():
            return
        ids, mask = tokens[:, None], np.pad(mask, ((0, 0), (0, 1)), constant_values=1)


'''

_MAIN = 'if __name__ == "__main__":'
_FED = frozenset({"input_ids", *MADE})


def with_buffers(script: str, model: Path) -> str:
    """The text of ``load.py``, with ``generate`` where the graph of ``model`` says that its past may be a buffer.

    Args:
        script: opens the model by onnxruntime.
        model: the file.
    """
    return _with(_BUFFERS, script) if file_shares_past(model) else script


def with_growing_past(script: str, model: Model, state: Mapping[str, str]) -> str:
    """The text of ``load.py``, with ``generate`` where the model is a decoder that is fed its past and nothing else.

    Args:
        script: whose ``load`` returns what is called as a session of onnxruntime is.
        model: that it opens.
        state: by output, the input that takes it in the next step, as ``export.json`` says it; empty: by their names.
    """
    interface = interface_of(model.inputs, [info.name for info in model.outputs], state)
    fed = interface.inputs.keys() <= _FED | set(interface.state.values())
    scored = any(info.name == LOGITS and len(info.shape or ()) == 3 for info in model.outputs)
    return _with(_GROWING, script) if interface.is_decoder and fed and scored else script


def _with(steps: str, script: str) -> str:
    head, main, tail = script.partition(_MAIN)
    there = {line.partition("  #")[0] for line in head.splitlines()}
    imports = "".join(f"{line}  # noqa: E402\n" for line in _NAMES.splitlines() if line not in there)
    taken_over = "".join(f"{inspect.getsource(one)}\n\n" for one in (Sampling, choose, carried_by_name))
    return f"{head}{imports}\n{_ARRAY}{taken_over}{steps}{_GENERATE}{main}{tail}"
