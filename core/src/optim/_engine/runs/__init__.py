"""A run from source to verdict, and the folder that it leaves."""
