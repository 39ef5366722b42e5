"""The plugin ``diagnose``: what makes a model differ, what its nodes cost, and the smallest part that fails."""
