"""What every plugin needs of ONNX files: reading, writing, checking, describing. Imported only when a model is."""
