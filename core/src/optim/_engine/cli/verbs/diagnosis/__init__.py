"""Verbs that look into a model: where it differs, and what its nodes cost."""
