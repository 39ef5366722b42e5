"""What distributions of this repository may use of the engine, a file for each of them.

Each of them needs the very version of optim-core that it was made with: a name here may change with every release.
Plugins of other people use the public modules. Each name is imported when it is first used, so that loading a plugin
imports none of the engine.
"""
