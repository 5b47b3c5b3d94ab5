"""Decoding of columns that PostgreSQL returns."""

from __future__ import annotations

import pickle
from uuid import UUID, uuid4

from app.store.core.binary_arrays import decode_uuids


def test_ids_are_uuids_like_any_other() -> None:
    ids = [UUID(int=0), UUID(int=2**128 - 1), *(uuid4() for _ in range(20))]
    found = decode_uuids(b"".join(each.bytes for each in ids))
    assert found == ids
    assert [hash(each) for each in found] == [hash(each) for each in ids]
    assert [str(each) for each in found] == [str(each) for each in ids]
    assert pickle.loads(pickle.dumps(found)) == ids  # noqa: S301 - our own
    assert {each.is_safe for each in found} == {ids[0].is_safe}
    assert decode_uuids(None) == []
