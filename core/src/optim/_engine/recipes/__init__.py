"""A **recipe** says what you want of a run. A **lock** says exactly what a run did.

Both are TOML files for ``--recipe``:

    optim run model.onnx -o run --recipe recipe.toml
    optim run model.onnx -o again --recipe run/recipe.lock.toml      # repeats the first run, without a search

Command-line options override the recipe. If a recipe or lock names code (data or a metric as
``package.module:function``, a step of your own), optim refuses it unless you give ``--trust-code``.
"""
