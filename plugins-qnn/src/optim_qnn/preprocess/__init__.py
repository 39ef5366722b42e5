"""``qnn.preprocess``: a graph as HTP takes it."""
