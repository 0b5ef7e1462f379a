"""Workers: the untrusted side. Candidates and baselines run here, in processes that share nothing with the judge.

What crosses the boundary, and how:

* judge to worker: pickled requests (``messages``) over a socket, and memory that the judge made;
* worker to judge: JSON of bounded size, and bytes that the worker copied into that memory. Nothing from a worker is
  ever unpickled, and nothing in this room holds an expected value.

``launcher`` starts a ``zygote`` (a process that has imported torch and touched no device); the zygote forks a
``supervisor`` for every request, which puts itself behind ``isolation`` and forks the ``worker`` proper.
"""
