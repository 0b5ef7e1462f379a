"""Frames: what an honest worker sends arrives in any pieces, and nothing else does."""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.workers import wire

bodies = st.dictionaries(
    st.text(max_size=8).filter(lambda key: key != "token"),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=8,
    ),
    max_size=6,
)


def frame(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


@given(body=bodies, sizes=st.lists(st.integers(1, 40), min_size=1))
def test_reply_arrives_in_any_pieces(body: dict[str, object], sizes: list[int]) -> None:
    data = frame(json.dumps({"token": "t", **body}).encode())
    reader, found, at = wire.ReplyReader(), None, 0
    while at < len(data):
        step = sizes[at % len(sizes)]
        assert found is None
        found = reader.feed(data[at : at + step], "t")
        at += step
    assert found == body


@given(data=st.binary(min_size=4, max_size=200))
def test_garbage_is_refused_or_incomplete(data: bytes) -> None:
    reader = wire.ReplyReader()
    try:
        assert reader.feed(data, "secret") is None
    except wire.WireViolation:
        return
    assert struct.unpack("<I", data[:4])[0] + 4 > len(data)


@pytest.mark.parametrize(
    "data",
    [
        frame(b'{"token": "other"}'),
        frame(b"{}"),
        frame(b"[1]"),
        frame(b"[" * 100_000),
        frame(b"\xff\xfe"),
        frame(pickle.dumps({"token": "t"})),
        frame(b'{"token": "t"}') * 2,
        struct.pack("<I", wire.REPLY_LIMIT + 1),
    ],
)
def test_what_is_not_the_reply_is_a_violation(data: bytes) -> None:
    with pytest.raises(wire.WireViolation):
        wire.ReplyReader().feed(data, "t")


def test_request_carries_objects_and_descriptors() -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    request = wire.Request.of({"shape": (1, 2)})
    with ours, theirs:
        data = wire.encode_request(request)
        sent = socket.send_fds(ours, [data], [write])
        ours.sendall(data[sent:])
        received, descriptors = wire.receive_request(theirs)
    assert received == request
    os.write(descriptors[0], b"x")
    assert os.read(read, 1) == b"x"
    for descriptor in (read, write, *descriptors):
        os.close(descriptor)


def test_judge_gone_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(EOFError):
        wire.receive_request(theirs)


def test_tokens_differ() -> None:
    assert len({wire.Request.of(None).token for _ in range(1000)}) == 1000
