"""Counterparts of steps on sound."""

from __future__ import annotations

import io
import wave

import numpy as np

from optim_prepost.reference.arrays import Array, Arrays
from optim_prepost.steps.mel import mel_filters


def audio_decoder(audio: Array, rate: int = 16000, name: str | None = None) -> Arrays:
    """A WAV file of 16-bit samples at ``rate``; several channels are averaged."""
    with wave.open(io.BytesIO(audio.tobytes())) as opened:
        if opened.getframerate() != rate or opened.getsampwidth() != 2:
            raise ValueError(f"the counterpart reads WAV files of 16 bits at {rate} Hz")
        frames = np.frombuffer(opened.readframes(opened.getnframes()), "<i2").reshape(-1, opened.getnchannels())
    return ((frames.astype(np.float64) / 32768).mean(1).astype(np.float32),)


def unit_variance(samples: Array, name: str | None = None) -> Arrays:
    """Mean 0 and variance 1, as a batch of one."""
    wide = samples.astype(np.float64)
    return (((wide - wide.mean()) / np.sqrt(wide.var() + 1e-7)).astype(np.float32)[None],)


def log_mel(
    samples: Array,
    mels: int = 80,
    size: int = 400,
    hop: int = 160,
    rate: int = 16000,
    seconds: float = 30.0,
    name: str | None = None,
) -> Arrays:
    """Whisper's features, frame by frame with NumPy's Fourier transform in float64."""
    count = int(seconds * rate)
    filled = np.zeros(count)
    filled[: len(samples)] = samples[:count]
    padded = np.pad(filled, size // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop][: count // hop]
    power = np.abs(np.fft.rfft(frames * window, axis=-1)) ** 2
    logged = np.log10(np.maximum(power @ mel_filters(rate, size, mels).astype(np.float64), 1e-10))
    raised = np.maximum(logged, logged.max() - 8.0)
    return (((raised + 4.0) / 4.0).T[None].astype(np.float32),)


def greedy_ctc(logits: Array, blank: int = 0, name: str | None = None) -> Arrays:
    """Best of each frame; repeats, then blanks, left out."""
    path = logits[0].argmax(-1)
    heard = [token for place, token in enumerate(path) if token != blank and (place == 0 or path[place - 1] != token)]
    return (np.array(heard, dtype=np.int64),)
