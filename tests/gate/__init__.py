"""Pairs of models that attack the gate, and pairs that it must let pass.

Whether two models compute the same is decided in one place, the gate. This folder holds what it is tried on.

* A *wrong* pair is two models that a user would call different, although most of their numbers agree. Each names the
  reason. Verify must refuse the pair, both with the default budget of a run and as "equal up to rounding".
* A *right* pair is one model written in two ways. Verify must call it equal up to rounding.
* Some differences do not show on the samples of a pair. Such a pair lists every verdict that is accepted; "equal up to
  rounding" is never one of them if the models differ.

A pair comes from a generator: a function that writes one of its two models into a :class:`gate.sketch.Sketch`. The
generator draws weights from a seed, and takes its sizes and its number format from a :class:`gate.case.Trial`, so each
generator makes many pairs.

============================  ==================================================================
``gate/case.py``              what a pair is, and the list of all generators
``gate/sketch.py``            a small model, written down node by node
``gate/judged.py``            the verdict of ``optim.verify`` on a pair
``gate/wrong/``               generators of wrong pairs, a file for each kind of attack
``gate/right/``               generators of right pairs
``gate/test_corpus.py``       each generator once, as part of ``make test``
``gate/whole.py``             all sizes, seeds and number formats: ``python -m gate.whole`` in ``tests/``
============================  ==================================================================

How to add a pair: write a generator into the file of its kind, with ``@wrong("the reason")`` or ``@right("...")``.
"""
