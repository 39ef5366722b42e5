"""The search: a beam over the stages, explored cheaply first, decided by the clock."""
