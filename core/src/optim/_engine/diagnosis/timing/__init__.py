"""Where the time of a model goes: the profile of ONNX Runtime, read and joined."""
