"""Blobs: named by content, complete or absent."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernelevolve.errors import KernelEvolveError
from kernelevolve.hashing import digest_bytes
from kernelevolve.store.blobs import BlobStore


def test_content_comes_back_under_its_digest(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    digest = blobs.put(b"kernel")
    assert digest == digest_bytes(b"kernel")
    assert blobs.get(digest) == b"kernel"


def test_same_content_is_one_file(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    digest = blobs.put(b"kernel")
    written = blobs.path(digest).stat().st_mtime_ns
    assert blobs.put(b"kernel") == digest
    assert blobs.path(digest).stat().st_mtime_ns == written


def test_many_writers_of_one_content_leave_one_complete_file(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    data = b"x" * 300_000
    threads = [threading.Thread(target=blobs.put, args=(data,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [blobs.path(digest_bytes(data))]
    assert blobs.get(digest_bytes(data)) == data


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    digest = blobs.put(b"kernel")
    blobs.path(digest).write_bytes(b"kernal")
    with pytest.raises(KernelEvolveError, match="changed"):
        blobs.get(digest)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelEvolveError, match="missing"):
        BlobStore(tmp_path).get("ab" * 32)
