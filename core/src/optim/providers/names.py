"""How ONNX Runtime calls the execution providers that optim itself knows."""

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
