"""A small generation loop over exported decoders: to try a model and to verify one, not to serve it."""

from optim._engine.generation.decoder import Decoder
from optim._engine.generation.sampling import Sampling

__all__ = ["Decoder", "Sampling"]
