"""What ``load.py`` has beside ``load`` for a decoder whose past and present may be one buffer: ``generate``.

Tokens are chosen by the code that ``optim.load`` chooses by: its text is taken over.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from optim._engine.generation.sampling import Sampling, choose
from optim.decoders.shared_past import file_shares_past

_NAMES = """\
import math  # noqa: E402
from dataclasses import dataclass  # noqa: E402

from numpy.typing import NDArray  # noqa: E402

Array = np.ndarray


"""

_GENERATE = '''\
def context():
    """Tokens that the model was made for, where export.json says so; else None."""
    with suppress(OSError, KeyError):
        return json.loads((Path(__file__).parent / "export.json").read_text(encoding="utf-8"))["facts"]["context"]
    return None


def free_bytes():
    """Memory that may be taken, where the system says so in /proc; else None."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return None


def past_buffers(session, rows, tokens):
    """A buffer for each past of so many tokens, with the names of the input and the output that share it."""
    inputs, wanted = {value.name: value for value in session.get_inputs()}, []
    for name in [value.name for value in session.get_outputs() if value.name.startswith("present.")]:
        past = inputs["past_key_values" + name.removeprefix("present")]
        shape = [rows, *(size if isinstance(size, int) else tokens for size in past.shape[1:])]
        kind = past.type.removeprefix("tensor(").removesuffix(")")  # float, float16, int8 or uint8
        wanted.append((past.name, name, shape, np.dtype("float32" if kind == "float" else kind)))
    needed, free = sum(kind.itemsize * math.prod(shape) for _, _, shape, kind in wanted), free_bytes()
    if free is not None and needed > free:
        raise MemoryError(f"the past takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: ask for less")
    return [(*names, ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, kind))) for *names, shape, kind in wanted]


def generate(prompts, max_new_tokens=64, stop=(), session=None, sampling=None, seed=0, pad=0):
    """New tokens as they come: of one prompt a number each time, of several prompts a list with one for each.

    A prompt is a list of ids; several may differ in length. A row ends at a token of stop, and gets pad from then on.
    The likeliest token is taken, or drawn: sampling=Sampling(greedy=False, temperature=0.8, top_k=50, top_p=0.95). The
    past lies in buffers that are bound once as inputs and as outputs; each step adds to them and copies nothing.
    """
    if max_new_tokens < 0 or seed < 0:
        raise ValueError(f"max_new_tokens and seed are 0 or more, not {max_new_tokens} and {seed}")
    session, sampling = session or load(), sampling or Sampling()
    several = len(prompts) > 0 and np.ndim(prompts[0]) > 0
    rows = [np.asarray(row, np.int64) for row in (prompts if several else [prompts])]
    if not rows or any(not row.size for row in rows):
        raise ValueError("a prompt holds no tokens")
    words = next(value.shape[-1] for value in session.get_outputs() if value.name == "logits")
    if strange := [one for row in rows for one in row if one < 0 or (isinstance(words, int) and one >= words)]:
        raise ValueError(f"{strange[0]} is no token of the model, which has {words}")
    longest, room = max(row.size for row in rows), context()
    if room and longest + max_new_tokens > room:
        raise ValueError(f"{longest} tokens and {max_new_tokens} new ones are more than the model's context of {room}")
    ids, mask = np.full((len(rows), longest), pad), np.zeros((len(rows), longest), np.int64)
    for index, row in enumerate(rows):
        ids[index, longest - row.size :], mask[index, longest - row.size :] = row, 1
    taken, binding = {value.name for value in session.get_inputs()}, session.io_binding()
    if not mask.all() and "attention_mask" not in taken:
        raise ValueError("the model takes no attention_mask: prompts of several lengths go one at a time")
    binding.bind_output("logits")
    held = past_buffers(session, len(rows), longest + max_new_tokens)
    for past, present, buffer in held:
        binding.bind_ortvalue_input(past, buffer)
        binding.bind_ortvalue_output(present, buffer)
    one = ort.OrtValue.ortvalue_from_numpy(np.array(1, np.int64))
    if "num_logits_to_keep" in {value.name for value in session.get_overridable_initializers()}:
        binding.bind_ortvalue_input("num_logits_to_keep", one)  # the last token's alone
    random, ended = np.random.default_rng(seed), np.zeros(len(rows), bool)
    for _ in range(max_new_tokens):
        positions = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, -ids.shape[1] :]
        fresh = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        for name in fresh.keys() & taken:
            binding.bind_cpu_input(name, np.ascontiguousarray(fresh[name]))
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        tokens = np.where(ended, pad, choose(binding.get_outputs()[0].numpy()[:, -1], sampling, random))
        yield tokens.tolist() if several else int(tokens[0])
        ended |= np.isin(tokens, stop)
        if ended.all():
            return
        ids, mask = tokens[:, None], np.pad(mask, ((0, 0), (0, 1)), constant_values=1)


'''

_MAIN = 'if __name__ == "__main__":'


def with_generate(script: str, model: Path) -> str:
    """The text of ``load.py``, with ``generate`` where the graph of ``model`` says that its past may be a buffer."""
    if not model.is_file() or not file_shares_past(model):
        return script
    head, main, tail = script.partition(_MAIN)
    taken_over = "".join(f"{inspect.getsource(one)}\n\n" for one in (Sampling, choose))
    return f"{head}{_NAMES}{taken_over}{_GENERATE}{main}{tail}"
