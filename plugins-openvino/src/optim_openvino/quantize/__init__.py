"""Passes of NNCF, OpenVINO's own compression library, on the ONNX graph."""
