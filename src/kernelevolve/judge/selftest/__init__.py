"""The self-test: exploits, faults and known-good kernels that prove the judge on this machine.

``case`` says what a case is, ``corpus`` reads the files beside it, ``faults`` holds the faults that are no candidate,
``runner`` puts everything to the judge, ``coverage`` says which entries of the catalogue are covered and by what.
Nothing in the judge knows the corpus: what is caught here is caught by the rules that every candidate meets.
"""
