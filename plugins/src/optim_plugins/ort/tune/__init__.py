"""Settings of ONNX Runtime's sessions."""
