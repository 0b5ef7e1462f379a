"""Selection policies; one module each, found through ``POLICIES``. Each module holds ``POLICY``, the class."""

from collections.abc import Callable

from kernelevolve.registry import Registry
from kernelevolve.search.policy import Policy

POLICIES: Registry[Callable[..., Policy]] = Registry("selection policy", "kernelevolve.search.policies", "POLICY")

__all__ = ["POLICIES"]
