"""The command line ``optim``: one file for each command, imported when that command is called."""
