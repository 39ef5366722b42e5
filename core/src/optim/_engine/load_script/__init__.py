"""``load.py`` of a run folder, as text: it opens the model with its runtime alone, and knows nothing of optim."""
