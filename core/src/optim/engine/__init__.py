"""What distributions of this repository may use of the engine, a file for each of them.

Each of them needs the very version of optim-core that it was made with: a name here may change with every release.
What other people build uses the public modules. Each name is imported when it is first used: who loads a plugin, or
imports the module of a verb, does not wait for it.
"""
