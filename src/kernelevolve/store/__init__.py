"""Store: runs, nodes, verdicts and trials of a workspace; killing the process at any instant loses no stored node."""

from kernelevolve.store.lock import RunLock
from kernelevolve.store.records import Checkpoint, RunRecord, RunStatus, StoredNode
from kernelevolve.store.store import Store, Timing

__all__ = ["Checkpoint", "RunLock", "RunRecord", "RunStatus", "Store", "StoredNode", "Timing"]
