"""Other versions of onnxruntime, each in an environment of its own: what became slower or different with an upgrade."""
