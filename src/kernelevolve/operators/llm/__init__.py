"""Language models as operators: one for each model of a run, all of the same kind."""
