"""Compiling for HTP: ``qnn.context-binary``, and several models in one file."""
