"""Recordings: every request to a language model, every answer, and what each conversation ended in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, insert, select

from kernelevolve.operators.exchange import Conclusion, Ending, Exchange, Purpose
from kernelevolve.operators.purse import Money
from kernelevolve.store.blobs import BlobStore
from kernelevolve.store.schema import CONCLUSIONS, EXCHANGES, NODES


class Recordings:
    """The recordings of all runs of a store. Any thread may call any method; what returned is on the disk."""

    def __init__(
        self, engine: Engine, blobs: BlobStore, transaction: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self._engine, self._blobs, self._transaction = engine, blobs, transaction

    def append(self, run: str, exchange: Exchange) -> None:
        """Keep an exchange."""
        row = exchange.model_dump(mode="json", exclude={"request", "response"}) | {
            "run": run, "request": self._put(exchange.request),
            "response": None if exchange.response is None else self._put(exchange.response),
        }  # fmt: skip
        with self._transaction() as connection:
            connection.execute(insert(EXCHANGES).values(row))

    def conclude(self, run: str, conclusion: Conclusion) -> None:
        """Keep the end of a conversation."""
        row = conclusion.model_dump(mode="json") | {
            "run": run, "parents": json.dumps(conclusion.parents), "config": json.dumps(conclusion.config),
            "source": self._put(conclusion.source) if conclusion.source else None,
        }  # fmt: skip
        with self._transaction() as connection:
            connection.execute(insert(CONCLUSIONS).values(row))

    def exchanges(self, run: str, proposal: int | None = None) -> Iterator[Exchange]:
        """The exchanges of a run, or of one of its questions, in the order in which they ended."""
        c = EXCHANGES.c
        query = select(EXCHANGES).where(c.run == run).order_by(c.id)
        if proposal is not None:
            query = query.where(c.proposal == proposal)
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                yield self._exchange(row)

    def conclusions(self, run: str) -> dict[int, Conclusion]:
        """Number of the question -> what it ended in."""
        query = select(CONCLUSIONS).where(CONCLUSIONS.c.run == run).order_by(CONCLUSIONS.c.proposal)
        with self._engine.connect() as connection:
            return {row.proposal: self._conclusion(row) for row in connection.execute(query)}

    def conclusion(self, run: str, proposal: int) -> Conclusion | None:
        """What one question ended in; None if it did not end, or was put to no model."""
        c = CONCLUSIONS.c
        with self._engine.connect() as connection:
            row = connection.execute(select(CONCLUSIONS).where(c.run == run, c.proposal == proposal)).one_or_none()
        return None if row is None else self._conclusion(row)

    def unjudged(self, run: str) -> list[Conclusion]:
        """Programs that were written and never judged, because the process ended first."""
        with self._engine.connect() as connection:
            query = select(NODES.c.proposal).where(NODES.c.run == run, NODES.c.proposal.is_not(None))
            judged = set(connection.execute(query).scalars())
        return [
            conclusion
            for number, conclusion in self.conclusions(run).items()
            if conclusion.ending is Ending.CANDIDATE and number not in judged
        ]

    def money(self, run: str) -> Money:
        """What all exchanges of a run cost."""
        c = EXCHANGES.c
        query = select(
            func.count(c.response), func.coalesce(func.sum(c.input_tokens), 0),
            func.coalesce(func.sum(c.output_tokens), 0), func.coalesce(func.sum(c.dollars), 0.0),
        ).where(c.run == run)  # fmt: skip
        with self._engine.connect() as connection:
            requests, given, made, dollars = connection.execute(query).one()
        return Money(int(requests), int(given), int(made), float(dollars))

    def questions(self, run: str) -> int:
        """One more than the largest number of a question that was put to a model; 0 if none was."""
        with self._engine.connect() as connection:
            found = [
                connection.execute(select(func.max(table.c.proposal)).where(table.c.run == run)).scalar_one()
                for table in (EXCHANGES, CONCLUSIONS)
            ]
        return 1 + max((number for number in found if number is not None), default=-1)

    def _put(self, text: str) -> str:
        return self._blobs.put(text.encode())

    def _get(self, digest: str) -> str:
        return self._blobs.get(digest).decode()

    def _exchange(self, row: Row[Any]) -> Exchange:
        return Exchange(
            proposal=row.proposal, ordinal=row.ordinal, attempt=row.attempt, purpose=Purpose(row.purpose),
            model=row.model, request=self._get(row.request),
            response=None if row.response is None else self._get(row.response), failure=row.failure,
            detail=row.detail, input_tokens=row.input_tokens, output_tokens=row.output_tokens, dollars=row.dollars,
            seconds=row.seconds, at=datetime.fromisoformat(row.at),
        )  # fmt: skip

    def _conclusion(self, row: Row[Any]) -> Conclusion:
        return Conclusion(
            proposal=row.proposal, operator=row.operator, parents=tuple(json.loads(row.parents)),
            ending=Ending(row.ending), source="" if row.source is None else self._get(row.source),
            language=row.language, config=json.loads(row.config), node=row.node, reason=row.reason,
            exhausted=row.exhausted, tokens=row.tokens, dollars=row.dollars,
        )  # fmt: skip
