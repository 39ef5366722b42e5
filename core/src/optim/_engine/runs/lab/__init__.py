"""A model prepared for a person, a verb or a plugin that looks at it; the look of plugins at a finished run."""
