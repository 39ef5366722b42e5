"""``qnn.convert-float16``: the whole graph in float16."""
