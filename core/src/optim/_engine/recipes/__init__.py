"""What the user writes (a recipe) and what a run writes so that it can be repeated (a lock), both TOML."""
