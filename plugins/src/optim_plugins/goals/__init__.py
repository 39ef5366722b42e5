"""What a model is asked for beside single runs: a start, many samples, answers; each with the clock that times it."""
