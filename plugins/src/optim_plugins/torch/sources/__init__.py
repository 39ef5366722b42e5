"""Reads sources: modules made by the user's function, and Hugging Face folders."""
