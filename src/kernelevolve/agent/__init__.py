"""The agent's side: a run that a coding agent, or a person, writes the candidates for."""

from kernelevolve.agent.dialogue import Asked, Dialogue, start

__all__ = ["Asked", "Dialogue", "start"]
