"""A failing model, cut to the smallest part that fails."""
