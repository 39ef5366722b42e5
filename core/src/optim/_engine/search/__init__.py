"""The search: a beam over the stages, explored cheaply first, decided by the clock.

- ``plan`` sorts passes into stages, ``preparation`` brings the model in and runs it, ``workbench`` tries candidates,
  ``keys`` tells what the answer of each job depends on;
- ``experience`` keeps what won on earlier models, ``explore.recall`` tries that first;
- ``explore.first_looks`` tries each pass once, ``explore.promise`` remembers what each gains and costs;
- ``explore.beam`` goes from stage to stage, ``explore.expand`` tries the passes of one on one candidate;
- ``measure.clock`` races candidates against the original, ``measure.source_gate`` holds them against their source;
- ``select.selection`` measures the best anew, on all samples, and selects what is delivered;
- ``board`` holds what was found, as values of ``state``; ``deadline`` has all
  seconds, ``lane_costs`` what races take of them.
"""
