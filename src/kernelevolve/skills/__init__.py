"""Skills: what a run learnt, distilled with its evidence, and given to later runs on similar problems."""

from kernelevolve.skills.records import ProblemClass, Skill, SkillReference, SkillSettings, TransferReference

__all__ = ["ProblemClass", "Skill", "SkillReference", "SkillSettings", "TransferReference"]
