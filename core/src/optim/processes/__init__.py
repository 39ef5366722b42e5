"""One subprocess for each piece of work that may crash, hang or eat memory: a plugin's code, a runtime, a clock."""
