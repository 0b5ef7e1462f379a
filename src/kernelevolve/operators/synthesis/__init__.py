"""Synthesis: a reference becomes a candidate without a language model.

``lower`` turns the captured ATen graph into loop-level operations (``ir``), ``rewrite`` applies algebra, ``fuse``
groups the operations into kernels (``kernels``), ``emit`` writes the text of one language. ``plan`` holds every
decision taken on the way.
"""
