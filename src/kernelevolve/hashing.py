"""Content hashes: every record that can be compared or cached is named by one."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_bytes(data: bytes) -> str:
    """SHA-256 of raw bytes, in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 of a JSON value with sorted keys, so that equal values have equal digests."""
    return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
