"""The plugin ``torch``: torch modules and Hugging Face folders as sources, and their export to ONNX."""
