"""Columns that PostgreSQL returns, and vectors that it receives."""

from __future__ import annotations

import pickle
from uuid import UUID, uuid4

import numpy as np
import psycopg

from app.store.core.binary_arrays import Halfvec, decode_uuids


def test_ids_are_uuids_like_any_other() -> None:
    ids = [UUID(int=0), UUID(int=2**128 - 1), *(uuid4() for _ in range(20))]
    found = decode_uuids(b"".join(each.bytes for each in ids))
    assert found == ids
    assert [hash(each) for each in found] == [hash(each) for each in ids]
    assert [str(each) for each in found] == [str(each) for each in ids]
    assert pickle.loads(pickle.dumps(found)) == ids  # noqa: S301 - our own
    assert {each.is_safe for each in found} == {ids[0].is_safe}
    assert decode_uuids(None) == []


def test_a_vector_arrives_as_its_text_would(database_url: str) -> None:
    vector = np.random.default_rng(3).normal(size=256).astype(np.float32)
    given = {"vector": Halfvec(vector), "text": str(vector.tolist())}
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT CAST(%(vector)s AS halfvec) = CAST(%(text)s AS halfvec), "
            "vector_dims(CAST(%(vector)s AS halfvec(256)))",
            given,
        ).fetchone()
    assert row == (True, 256)
