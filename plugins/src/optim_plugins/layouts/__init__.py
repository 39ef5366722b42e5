"""The plugin ``layouts``: results as other programs open them."""
