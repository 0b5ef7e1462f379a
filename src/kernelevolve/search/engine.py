"""Engine: one run from its beginning to its end, holding policy, operators, judge, store and ledger together."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kernelevolve.judge.protocol import Judge
from kernelevolve.operators import Operator
from kernelevolve.prompting import Retriever
from kernelevolve.search.evaluation import Evaluator
from kernelevolve.search.events import (
    BaselineMeasured,
    IncumbentChanged,
    Listener,
    Phase,
    PhaseChanged,
    RunFinished,
    RunStarted,
)
from kernelevolve.search.finale import Finale
from kernelevolve.search.interrupt import stop_on_interrupt
from kernelevolve.search.policy import Policy
from kernelevolve.search.proposals import Proposals
from kernelevolve.search.ranking import choose_best
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.stage import Stage, Stopped
from kernelevolve.search.state import SearchState
from kernelevolve.search.steady_state import SteadyState
from kernelevolve.search.workshops import Workshops
from kernelevolve.skills.recall import past_kernels
from kernelevolve.store import RunLock, RunRecord, RunStatus, Store
from kernelevolve.targets import Target

INTERRUPTED = "interrupted"
FINISHED = "it was asked to finish"


class Engine:
    """Searches one run in this process, new or continued: what the store has of the run is where it begins.

    Policy, graph, ledger and store are used by the thread that calls ``run`` only; operators and judge work in slots
    beside it and send messages back.
    """

    def __init__(
        self,
        store: Store,
        record: RunRecord,
        settings: SearchSettings,
        policy: Policy,
        operators: Sequence[Operator],
        target: Target,
        judge: Judge,
        listeners: Sequence[Listener] = (),
        retriever: Retriever | None = None,
    ) -> None:
        """``retriever`` finds the pages that writers are shown."""
        self._store, self._record, self._settings = store, record, settings
        self._policy, self._operators, self._target = policy, operators, target
        self._judge, self._listeners, self._retriever = judge, listeners, retriever
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask the search to end now; any thread may. What was judged is kept, what is in flight is abandoned."""
        self._stop.set()

    def run(self) -> None:
        """Search until there is a reason to end, then tune and promote the best. Ctrl-C does what ``stop`` does.

        Called once. Raises InvalidRequest if another process searches this run, KernelEvolveError if the store cannot
        be written or an operator lacks what it needs; the run can then be continued like an interrupted one.
        """
        self._enter(searching=True)

    def finish(self) -> None:
        """Search no further: tune and promote the best of what is there. Otherwise like ``run``."""
        self._enter(searching=False)

    def _enter(self, *, searching: bool) -> None:
        lock = RunLock(self._store.workspace / self._record.id)
        lock.acquire()
        try:
            state = SearchState(self._store, self._record.id, self._settings.budget, self._policy)
            slots = self._settings.workers + self._settings.conversations - 1
            stage = Stage(state, slots, self._listeners, self._stop)
            with stop_on_interrupt(self._stop):
                self._run(state, stage, searching)
        finally:
            lock.release()

    def _run(self, state: SearchState, stage: Stage, searching: bool) -> None:
        record, settings = self._record, self._settings
        self._store.set_status(record.id, RunStatus.RUNNING)
        stage.tell(
            RunStarted(
                record.id, record.problem.name, record.target, settings.policy, settings.budget, state.ledger.reading()
            )
        )
        if state.graph.best is not None:
            stage.tell(IncumbentChanged(state.graph.best, state.judged(state.graph.best.id).verdict))
        status, reason = RunStatus.INTERRUPTED, INTERRUPTED
        try:
            reason = self._phases(state, stage, searching)
            status = RunStatus.FINISHED
        except Stopped:
            pass
        except Exception as error:
            reason = f"an error ended it: {error}"
            raise
        finally:
            # Evaluations that are still in flight begin nothing new.
            self._stop.set()
            self._store.set_status(record.id, status, reason, state.closing_checkpoint())
        best = choose_best(state.graph.nodes(), self._store.promotions(record.id))
        stage.tell(
            RunFinished(
                record.id, reason, status is RunStatus.INTERRUPTED, best.id if best else None, state.ledger.reading()
            )
        )

    def _phases(self, state: SearchState, stage: Stage, searching: bool) -> str:
        """Everything that takes time; why the search ended."""
        settings = self._settings
        stage.tell(PhaseChanged(Phase.BASELINES))
        baselines = stage.call(self._judge.baselines)
        self._store.set_baselines(self._record.id, baselines)
        for name, seconds in baselines.items():
            stage.tell(BaselineMeasured(name, seconds))
        evaluator = Evaluator(self._judge, settings.seed, stage.post_trial, stage.expired, state.is_duplicate)
        reason = FINISHED
        if searching:
            record = self._store.run(self._record.id)  # with the baselines
            workshops = Workshops(state, record, self._target, self._judge, self._retriever, self._stop.is_set)
            past = past_kernels(self._store.blobs, settings.transfers)
            proposals = Proposals(state, self._operators, record.problem, self._target, settings.seed, past, workshops)
            stage.tell(PhaseChanged(Phase.SEARCH))
            reason = SteadyState(stage, proposals, evaluator, settings).run()
        Finale(stage, evaluator, settings).run()
        return reason
