"""Many runs: a matrix of models, targets and budgets, each run a program of its own, here or on a cluster."""
