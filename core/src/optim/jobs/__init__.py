"""What is done in a subprocess. Each module is one job: a ``Request``, an ``Answer`` and ``run(request, channel)``."""
