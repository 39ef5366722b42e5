"""The conformance classes, a file each; authors import them from :mod:`optim_testing`."""
