"""Selection policies; one module each, found through ``POLICIES``. Each module holds ``POLICY``, the class."""

from kernelevolve.registry import Registry
from kernelevolve.search.policy import Policy

POLICIES: Registry[type[Policy]] = Registry(
    "selection policy", "kernelevolve.search.policies", "POLICY", frozenset({"in_flight", "fenwick"})
)

__all__ = ["POLICIES"]
