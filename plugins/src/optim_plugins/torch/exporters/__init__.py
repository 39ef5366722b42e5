"""From a module to an ONNX graph."""
