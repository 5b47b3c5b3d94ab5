"""LangGraph: `EbbingStore`, a `BaseStore` whose items are memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ebbing_client.adapters import items, steps
from ebbing_client.adapters.items import Items, Namespace, NewItem
from ebbing_client.adapters.steps import Steps
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise steps.missing_package("langgraph-checkpoint", "langgraph") from error


class EbbingStore(BaseStore):
    """A store for LangGraph and LangMem. Reads return what was put before; expired items are left out.

    Values are JSON objects; one of more than 16 KiB, including namespace and key, raises `Invalid`. A query ranks up to
    100 items by words and meaning; the others follow without a score. The strength of items that a query finds
    grows, as with any search.

    Args:
        client: `Ebbing` for synchronous and asynchronous calls, or `AsyncEbbing` for asynchronous calls only.
        name: Name of the store: stores of one tenant with different names are separate.
        fields: Paths in values whose text is searched, such as `"title"` or `"chapters[*].content"`; without them, all
            texts and numbers of a value.
        ttl: LangGraph's configuration of the time to live. The service deletes expired items nightly.
        is_kept: Protect items from forgetting; False lets the tenant's policy forget items that nobody uses.
        subject: Function that returns the person of a namespace, such as `lambda namespace: namespace[1]`;
            erasures of the person then delete these items.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Ebbing | AsyncEbbing,
        *,
        name: str = "langgraph",
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        is_kept: bool = True,
        subject: Callable[[Namespace], str | None] | None = None,
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self._client = client
        self._fields = fields
        self._items = Items(name, is_kept=is_kept, subject=subject)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: first the reads, then the last write of each key."""
        if isinstance(self._client, AsyncEbbing):
            raise TypeError("this store has an AsyncEbbing: use aget, aput, asearch …, or create it with an Ebbing")
        return steps.run(self._client, self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations like `batch`; with a blocking client, in a thread."""
        return await steps.run_async(self._client, self._batch(list(ops)))

    def _batch(self, ops: Sequence[Op]) -> Steps[list[Result]]:
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(ops)
        gets = {place: op for place, op in enumerate(ops) if isinstance(op, GetOp)}
        if gets:
            names = [(op.namespace, op.key) for op in gets.values()]
            refreshed = [(op.namespace, op.key) for op in gets.values() if op.refresh_ttl]
            found = yield from self._items.get(names, refreshed=refreshed)
            for place, op in gets.items():
                item = found.get((op.namespace, op.key))
                results[place] = None if item is None else Item(**_shown(item))
        writes: dict[tuple[Namespace, str], PutOp] = {}
        for place, op in enumerate(ops):
            if isinstance(op, SearchOp):
                hits = yield from self._items.search(
                    op.namespace_prefix,
                    query=op.query,
                    where=op.filter,
                    limit=op.limit,
                    offset=op.offset,
                    is_refreshed=op.refresh_ttl,
                )
                results[place] = [SearchItem(**_shown(item), score=item.score) for item in hits]
            elif isinstance(op, ListNamespacesOp):
                results[place] = yield from self._list_namespaces(op)
            elif isinstance(op, PutOp):
                writes[op.namespace, op.key] = op
            elif not isinstance(op, GetOp):
                raise TypeError(f"unknown operation {type(op).__name__}")
        yield from self._write(list(writes.values()))
        return results

    def _write(self, puts: Sequence[PutOp]) -> Steps[None]:
        # All items are checked before anything is deleted or stored.
        new = [self._new_item(op) for op in puts if op.value is not None]
        for item in new:
            self._items.body(item)
        deleted = [(op.namespace, op.key) for op in puts if op.value is None]
        yield from self._items.delete(deleted)
        yield from self._items.put(new)

    def _new_item(self, op: PutOp) -> NewItem:
        if not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        if op.ttl is not None and op.ttl <= 0:
            raise ValueError(f"ttl must be more than 0 minutes, not {op.ttl}")
        text = None
        if op.index is not False:
            fields = list(op.index or self._fields or ["$"])
            whole = "$" in fields
            text = items.read_words(op.value) if whole else _read_fields(op.value, fields)
        return NewItem(op.namespace, op.key, op.value or {}, text, op.ttl)

    def _list_namespaces(self, op: ListNamespacesOp) -> Steps[list[Namespace]]:
        conditions = tuple(op.match_conditions or ())
        found = yield from self._items.list_namespaces(_concrete_prefix(conditions))
        wanted = (name for name in found if all(_is_match(name, condition) for condition in conditions))
        cut = sorted({name if op.max_depth is None else name[: op.max_depth] for name in wanted})
        return cut[op.offset : op.offset + op.limit]


def _shown(item: items.Item) -> dict[str, Any]:
    names = ("value", "key", "namespace", "created_at", "updated_at")
    return {name: getattr(item, name) for name in names}


def _read_fields(value: Any, fields: Sequence[str]) -> str | None:
    """Return the text of the given paths; None if the value has none of them."""
    texts = [text for path in fields for text in get_text_at_path(value, path)]
    return "\n".join(texts) or None


def _concrete_prefix(conditions: Iterable[MatchCondition]) -> Namespace:
    """Return the longest prefix without wildcards that all results have."""
    longest: Namespace = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            prefix = path[: path.index("*")] if "*" in path else path
            longest = max(longest, prefix, key=len)
    return longest


def _is_match(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"unknown match type {condition.match_type!r}: use 'prefix' or 'suffix'")
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))
