"""WorkerFactory: the processes in which candidates and baselines run, each with a directory and walls of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from kernelevolve.errors import KernelEvolveError, MissingTarget
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.languages import cpp
from kernelevolve.languages.toolchain import sanitizer
from kernelevolve.problems import Problem
from kernelevolve.targets import Target
from kernelevolve.workers import sandbox
from kernelevolve.workers.device import ArenaMaker
from kernelevolve.workers.devices import arena_maker
from kernelevolve.workers.isolation import Capability, IsolationPolicy, interpreter_directories
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.sandbox import Sandbox
from kernelevolve.workers.spawn import Spawn

PRELOAD: Mapping[str, tuple[str, ...]] = {
    "cpu": ("kernelevolve.languages.cpp",),
    "cuda": ("triton", "triton.language", "kernelevolve.languages.triton", "kernelevolve.languages.cuda"),
}
"""torch device type -> modules that candidates import, loaded once by the zygote."""
_UNLIMITED_CPU_SECONDS = 1_000_000


class WorkerFactory:
    """Opens workers of one judge, forked from processes that have imported what all of them need. Thread-safe."""

    def __init__(self, problem: Problem, target: Target, workspace: Path, settings: JudgeSettings) -> None:
        if settings.sandbox is not Sandbox.NONE:
            sandbox.require(settings.sandbox, sandbox.probe())
        self.ceilings = target.ceilings()  # Measured the first time, which takes seconds: not before it is of use.
        self.threads = settings.threads or self.ceilings.threads
        self._problem, self._target, self._settings = problem, target, settings
        self._launcher = Launcher(threads=self.threads, preload=PRELOAD[target.device_type])
        self._launcher.start()  # It imports while the rest is being set up.
        self.maker: ArenaMaker = arena_maker(target.device_type)
        self._workspace = workspace.resolve()
        self._scratch = Path(tempfile.mkdtemp(prefix="judge-", dir=_made(self._workspace / "scratch")))
        self._watched: Launcher | None = None
        """Starts workers in which C++ is watched."""
        self._watching = threading.Lock()
        self.isolation: dict[str, str] = {}
        """What the last candidate's worker was shut into."""

    def open_candidate(self, capabilities: frozenset[Capability] = frozenset()) -> tuple[ProgramSession, Path]:
        """A new worker for a candidate, and its directory (to be given to ``clean`` afterwards).

        ``capabilities`` are kept in a worker that is profiled, by a tool that does not work without them.
        """
        place = self.make_place("candidate-")
        budget = self._settings.compile_seconds + 100 * self._settings.run_seconds
        session = self._open(
            place, int(budget * self.threads), {}, writable=(), hidden=(self._workspace,), capabilities=capabilities
        )
        self.isolation = session.handle.isolation | {"level": sandbox.level_of(session.handle.isolation)}
        return session, place

    def open_baseline(self, name: str) -> ProgramSession:
        """A new worker for a baseline or its twin, whose compilers keep what they make in the workspace."""
        cache = _made(self._workspace / "baselines" / name)
        variables = {"TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"), "TRITON_CACHE_DIR": str(cache / "triton")}
        place = self.make_place(f"{name}-")
        return self._open(place, _UNLIMITED_CPU_SECONDS, variables, writable=(cache,), hidden=())

    def _open(
        self,
        place: Path,
        cpu_seconds: int,
        variables: Mapping[str, str],
        writable: tuple[Path, ...],
        hidden: tuple[Path, ...],
        capabilities: frozenset[Capability] = frozenset(),
        watched: Launcher | None = None,
        starts: Path | None = None,
    ) -> ProgramSession:
        """A worker; if it comes from a launcher of ``watched`` ones, it is arranged for that.

        With ``starts``, a directory of programs, it uses no device and starts these.
        """
        home = _made(place / "home")
        on_cpu = self._target.device_type == "cpu"
        policy = IsolationPolicy(
            scratch=home,
            writable=writable,
            hidden=(*temporary_directories(shared_memory=on_cpu or starts is not None), *hidden),
            visible=(
                *interpreter_directories(),
                *{path.parent.resolve() for path in self._problem.payload.values()},
                *([] if starts is None else [starts]),
            ),
            measures=self._settings.sandbox.measures,
            capabilities=capabilities,
            starts_programs=starts is not None,
            memory_bytes=self._memory_bytes() if on_cpu else None,
            limit_addresses=watched is None,
            cpu_seconds=cpu_seconds,
        )
        environment = {
            "HOME": str(home),
            "TMPDIR": str(_made(home / "tmp")),
            "KERNELEVOLVE_BUILD_DIR": str(_made(home / "build")),
            "TORCH_EXTENSIONS_DIR": str(home / "extensions"),
            "TRITON_CACHE_DIR": str(home / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
            **variables,
        }
        spawn = Spawn(
            policy, "cpu" if starts is not None else self._target.device_type, self.threads, self.ceilings.cache_bytes,
            environment, place / "output.txt", guarded=watched is not None,
        )  # fmt: skip
        session = ProgramSession((watched or self._launcher).spawn(spawn), self.maker)
        try:
            sandbox.require(self._settings.sandbox, session.handle.isolation)
        except KernelEvolveError:
            session.close()
            raise
        return session

    def _memory_bytes(self) -> int:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return self._settings.memory_bytes or int(0.6 * machine)

    @staticmethod
    def clean(place: Path) -> None:
        """Remove a worker's directory."""
        shutil.rmtree(place, ignore_errors=True)

    def open_watched(self) -> tuple[ProgramSession, Path]:
        """A new worker in which a candidate's accesses to memory are watched, and its directory.

        The process that forks such workers is started on first use. Raises MissingTarget if there is no way here.
        """
        launcher: Launcher = self._launcher
        variables: Mapping[str, str] = {}
        if self._target.device_type == "cpu":
            with self._watching:
                self._watched = self._watched or Launcher(
                    threads=self.threads, preload=PRELOAD["cpu"], environment=watching_environment()
                )
                launcher, variables = self._watched, sanitizer.CHILDREN
        place = self.make_place("watched-")
        budget = self._settings.compile_seconds + self._settings.memory_check_seconds
        session = self._open(place, int(budget * self.threads) + 1, variables, (), (self._workspace,), watched=launcher)
        return session, place

    def open_starter(self, place: Path, report: Path, programs: Path) -> ProgramSession:
        """A new worker at ``place`` that holds no candidate, and starts programs of that directory which watch one.

        It may write to ``report`` too. Raises what opening a worker raises.
        """
        budget = self._settings.compile_seconds + self._settings.memory_check_seconds
        cpu_seconds = int(budget * self.threads) + 1
        return self._open(place, cpu_seconds, {}, (report,), (self._workspace,), starts=programs)

    def make_place(self, prefix: str) -> Path:
        """A new directory for a worker; to be given to ``clean`` afterwards."""
        return Path(tempfile.mkdtemp(prefix=prefix, dir=self._scratch))

    def close(self) -> None:
        """End the processes that fork workers, and remove all directories."""
        for launcher in (self._launcher, self._watched):
            if launcher is not None:
                launcher.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def watching_environment() -> Mapping[str, str]:
    """With what a process is started in which C++ is watched. Raises MissingTarget if the compiler cannot do that."""
    compiler = cpp.compiler()
    library = None if compiler is None else sanitizer.runtime(compiler)
    if library is None:
        raise MissingTarget(
            "the C++ compiler has no AddressSanitizer", fix="install g++ with libasan (Debian: g++ brings it)"
        )
    return sanitizer.environment(library)


def temporary_directories(*, shared_memory: bool) -> tuple[Path, ...]:
    """World-writable places, of which each worker has its own. On a GPU that of shared memory is left as it is."""
    return (Path("/tmp"), Path("/var/tmp"), *([Path("/dev/shm")] if shared_memory else []))


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
