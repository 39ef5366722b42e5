"""The plugin ``adapters``: LoRA adapters out of a model and back, many of them over one optimized base."""
