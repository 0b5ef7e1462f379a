"""Targets: chip families; one module each, found through ``TARGETS``."""

from kernelevolve.errors import MissingTarget
from kernelevolve.registry import Registry
from kernelevolve.targets.target import Ceilings, Target

TARGETS: Registry[Target] = Registry(
    "target", "kernelevolve.targets", "TARGET",
    frozenset({"target", "ceilings", "conditions", "specification", "topology", "measured"}),
)  # fmt: skip


def resolve(name: str) -> Target:
    """The target of that name on this machine; ``auto`` is an NVIDIA GPU where there is one, else the CPU.

    Raises MissingTarget if this machine lacks it, InvalidRequest if there is no such target.
    """
    if name == "auto":
        nvidia = TARGETS.get("nvidia")
        return nvidia if nvidia.availability().ok else TARGETS.get("cpu")
    target = TARGETS.get(name)
    state = target.availability()
    if not state.ok:
        raise MissingTarget(f"this machine has no usable {name} target: {state.missing}", fix=state.fix)
    return target


__all__ = ["TARGETS", "Ceilings", "Target", "resolve"]
