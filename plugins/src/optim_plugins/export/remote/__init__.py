"""Models by address: ``hf://`` through huggingface_hub's cache, and URLs of ``.onnx`` files."""
