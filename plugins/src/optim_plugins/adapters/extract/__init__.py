"""``adapters.extract``: weights of adapters become inputs of the graph."""
