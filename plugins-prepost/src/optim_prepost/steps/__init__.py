"""Steps that onnxruntime-extensions does not have, all of standard operators."""
