"""Ceilings are measured once per device and kept in the user's cache."""

from __future__ import annotations

import os
from collections.abc import Callable

from pydantic import ValidationError

from kernelevolve.hashing import digest_json
from kernelevolve.languages.build_cache import user_cache
from kernelevolve.targets.target import Ceilings


def cached_ceilings(key: dict[str, str], measure: Callable[[], Ceilings]) -> Ceilings:
    """The ceilings under ``key`` (device, driver, versions); measured if the cache has none or holds nonsense."""
    path = user_cache() / "ceilings" / f"{digest_json(key)[:24]}.json"
    try:
        return Ceilings.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        pass
    ceilings = measure()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(ceilings.model_dump_json(indent=1))
    temporary.replace(path)
    return ceilings
