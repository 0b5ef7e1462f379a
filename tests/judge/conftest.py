"""Judges that several modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.selftest import corpus, runner
from kernelevolve.targets import TARGETS


@pytest.fixture(scope="module")
def gpu_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    place = tmp_path_factory.mktemp("judge")
    judge = LocalJudge(corpus.problem("gain_relu"), TARGETS.get("nvidia"), workspace=place, settings=runner.SETTINGS)
    yield judge
    judge.close()
