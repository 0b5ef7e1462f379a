"""Run identifiers: short, sortable by day, readable."""

from __future__ import annotations

import re
import secrets
from datetime import datetime

_LONGEST = 24


def new_run_id(problem: str, now: datetime) -> str:
    """``20261202-rmsnorm-3f2a``: the day, the problem's name as a slug, and 16 random bits."""
    slug = re.sub(r"[^a-z0-9]+", "_", problem.lower()).strip("_")[:_LONGEST].strip("_") or "problem"
    return f"{now:%Y%m%d}-{slug}-{secrets.token_hex(2)}"
