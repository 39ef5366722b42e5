"""A plugin's backend as the core uses it: held to its contract, named where it fails, its device taken in turns."""
