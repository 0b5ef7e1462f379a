"""Blobs: files named by the SHA-256 of their content."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kernelevolve.errors import KernelEvolveError
from kernelevolve.hashing import digest_bytes


class BlobStore:
    """Content-addressed files under one directory, ``ab/cdef…``; a blob that exists is complete and never changes.

    ``put`` returns only after the bytes and the name are on the disk, so that a database row written afterwards can
    refer to the blob whatever happens to the machine.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        """Where the blob of that digest is, or would be."""
        return self.root / digest[:2] / digest[2:]

    def put(self, data: bytes) -> str:
        """Keep the bytes and return their digest; writing the same content again costs a look-up."""
        digest = digest_bytes(data)
        path = self.path(digest)
        if path.exists():
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own for each writer: two of the same content both rename a complete file into place.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".incoming-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        for directory in (path.parent, self.root):
            _sync_directory(directory)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes; KernelEvolveError if the file is missing or does not match its name."""
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise KernelEvolveError(
                "a stored file is missing", path=path, fix="restore the workspace's blobs/ directory from a copy"
            ) from None
        if digest_bytes(data) != digest:
            raise KernelEvolveError(
                "a stored file was changed after it was written", path=path, fix="restore it from a copy"
            )
        return data


def _sync_directory(directory: Path) -> None:
    """Make names in a directory durable; a file's own fsync covers its bytes only."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
