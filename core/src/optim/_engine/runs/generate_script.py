"""What ``load.py`` has beside ``load`` for a decoder whose past and present may be one buffer: ``generate``."""

from __future__ import annotations

from pathlib import Path

from optim.decoders.shared_past import file_shares_past

GENERATE_TEXT = '''\
def generate(ids, max_new_tokens=64, stop=(), session=None):
    """New tokens behind one prompt, as they come: the likeliest each time, until one of stop.

    The past lies in buffers that are bound once as inputs and as outputs; each step adds to them and copies nothing.
    """
    session = session or load()
    ids = np.asarray(ids, np.int64).reshape(1, -1)
    if not ids.size:
        raise ValueError("the prompt holds no tokens")
    capacity, filled, held = ids.shape[1] + max_new_tokens, 0, []
    inputs, binding = {value.name: value for value in session.get_inputs()}, session.io_binding()
    binding.bind_output("logits")
    for name in [value.name for value in session.get_outputs() if value.name.startswith("present.")]:
        past = inputs["past_key_values" + name.removeprefix("present")]
        shape = [1, *(size if isinstance(size, int) else capacity for size in past.shape[1:])]
        dtype = np.float16 if "float16" in past.type else np.float32
        held.append(ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype)))
        binding.bind_ortvalue_input(past.name, held[-1])
        binding.bind_ortvalue_output(name, held[-1])
    for _ in range(max_new_tokens):
        total = filled + ids.shape[1]
        fresh = {
            "input_ids": ids,
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(filled, total)[None],
        }
        for name in fresh.keys() & inputs.keys():
            binding.bind_cpu_input(name, fresh[name])
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        token = int(binding.get_outputs()[0].numpy()[0, -1].argmax())
        yield token
        if token in stop:
            return
        filled, ids = total, np.array([[token]])


'''

_MAIN = 'if __name__ == "__main__":'


def with_generate(script: str, model: Path) -> str:
    """The text of ``load.py``, with ``generate`` where the graph of ``model`` says that its past may be a buffer."""
    if not model.is_file() or not file_shares_past(model):
        return script
    head, main, tail = script.partition(_MAIN)
    return f"{head}{GENERATE_TEXT}{main}{tail}"
