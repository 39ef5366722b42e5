"""The steps once more, in Pillow, NumPy and tokenizers: what the graphs are held against.

A function for each step takes the arrays of its inputs and the step's own parameters, and returns a tuple of arrays.
Nothing here is shared with the graphs but the filters of :mod:`optim_prepost.steps.mel`.
"""
