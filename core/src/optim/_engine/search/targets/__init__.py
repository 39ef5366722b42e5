"""Several targets in one run: which take part, how they share its time, and what became of each."""
