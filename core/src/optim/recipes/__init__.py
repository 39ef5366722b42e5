"""What a user writes to ask for a run, and what a run writes so that it can be repeated."""
