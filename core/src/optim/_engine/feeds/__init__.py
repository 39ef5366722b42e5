"""The feeds of a run: read and fitted (``sources``), or made up from the graph (``synthesize``)."""
