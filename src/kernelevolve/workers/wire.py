"""Frames over a socket: what may cross the boundary between judge and worker, and in which form.

A frame is a four-byte little-endian length and that many bytes. Requests are pickled, because they come from the
trusted side; replies are JSON of bounded size and are only ever parsed, never unpickled. Every request carries a
random token which its reply must repeat, so that a frame written ahead of time by the program under test is seen.
"""

from __future__ import annotations

import json
import pickle
import secrets
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REPLY_LIMIT = 1 << 20
"""Largest reply in bytes."""
REQUEST_LIMIT = 1 << 30
"""Largest request in bytes; plain values of a problem's inputs travel in requests, tensors do not."""
DESCRIPTOR_LIMIT = 8
"""Most file descriptors that one request may carry."""

_LENGTH = struct.Struct("<I")


class WireViolation(Exception):
    """A worker sent something that is not a reply: too long, not JSON, or with a token that was not asked for."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message with the token that its reply must repeat."""

    token: str
    message: Any

    @classmethod
    def of(cls, message: Any) -> Request:
        """A request with a fresh random token."""
        return cls(secrets.token_hex(8), message)


def encode_request(request: Request) -> bytes:
    """The frame of a request."""
    payload = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
    if len(payload) > REQUEST_LIMIT:
        raise ValueError(f"a request of {len(payload)} bytes is over the limit of {REQUEST_LIMIT}")
    return _LENGTH.pack(len(payload)) + payload


def receive_request(sock: socket.socket) -> tuple[Request, list[int]]:
    """Block for the next request and the descriptors that came with it; EOFError when the judge has gone.

    Runs in the zygote and in workers, whose other end is the judge: the only direction that is unpickled.
    """
    head, descriptors = b"", []
    while len(head) < _LENGTH.size:
        part, fds, _, _ = socket.recv_fds(sock, _LENGTH.size - len(head), DESCRIPTOR_LIMIT)
        if not part:
            raise EOFError
        head += part
        descriptors += fds
    request = pickle.loads(_receive_exactly(sock, _LENGTH.unpack(head)[0]))
    assert isinstance(request, Request)
    return request, descriptors


def _receive_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = sock.recv(min(1 << 20, count - len(data)))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def send_reply(sock: socket.socket, token: str, body: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send a reply as one JSON object; the token goes in with the body."""
    payload = json.dumps({"token": token, **body}).encode()
    if len(payload) > REPLY_LIMIT:
        raise ValueError(f"a reply of {len(payload)} bytes is over the limit of {REPLY_LIMIT}")
    frame = _LENGTH.pack(len(payload)) + payload
    sent = socket.send_fds(sock, [frame], list(fds)) if fds else 0
    sock.sendall(frame[sent:])


class ReplyReader:
    """Puts replies together from whatever pieces the socket delivers, and refuses what is not a reply."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes, token: str) -> dict[str, Any] | None:
        """Add bytes; the reply to the request with that token once it is complete, else None.

        Raises WireViolation for anything that an honest worker cannot have sent.
        """
        self._data += data
        if len(self._data) < _LENGTH.size:
            return None
        length = _LENGTH.unpack_from(self._data)[0]
        if length > REPLY_LIMIT:
            raise WireViolation(f"a frame claims {length} bytes, the limit is {REPLY_LIMIT}")
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        if len(self._data) > end:
            raise WireViolation("more than one reply came for one request")
        payload = bytes(self._data[_LENGTH.size : end])
        self._data.clear()
        try:
            body = json.loads(payload)
        except (ValueError, RecursionError):
            raise WireViolation("a frame is not JSON") from None
        if not isinstance(body, dict) or body.pop("token", None) != token:
            raise WireViolation("a frame answers no request that was made")
        return body
