"""Models of transformers as components, by their task."""
