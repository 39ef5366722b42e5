"""Changes to a module before it is exported."""
