"""What lies beside the ONNX file for whoever deploys on OpenVINO."""
