"""Build memories from the fields of foreign records: names, times, labels, numbers, and what remains as metadata."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from app.domain.imports.items import Fault, GivenState, Memory, Reading
from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.memory import (
    FIELDS,
    LABELS_MAX,
    NAME_MAX_CHARACTERS,
    MemoryIn,
    check_closely,
    check_links,
    check_moment,
    check_retention,
    check_written,
    field_path,
)
from app.errors import Invalid

STATE_FIELDS: Final = ("strength", "uses", "accessed_at", "created_at", "promoted_at")
"""Fields of a memory's state that JSON lines and CSV may have beside the fields of a memory."""
_MOMENTS: Final = frozenset(("occurred_at", "expires_at", "accessed_at", "created_at", "promoted_at"))
_LIMITS: Final = {"salience": 1, "multiplier": 2, "keep_days": 36_500, "strength": 1, "uses": 2**31 - 1}
_TEXTS: Final = frozenset(("external_id", "thread", "subject", "speaker"))
_LISTS: Final = frozenset(("tags", "categories", "entities"))
_NAMES: Final = frozenset(field.name for field in FIELDS) | {"supersedes", "links", "embedding", "keep_days"}
KNOWN: Final = _NAMES | frozenset(STATE_FIELDS)
_EPOCH_MS: Final = 1e11
"""Numbers from this one on are milliseconds since 1970; as seconds they would be after the year 5138."""
_FAULTS_SHOWN: Final = 3
_NO_TIME: Final = "must be a time such as 2026-11-20T18:00:00Z, or seconds since 1970"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class BadValue(ValueError):
    """A value can't be converted; the message is a predicate about its field, without the value."""


def parse_moment(value: object, reading: Reading) -> datetime | None:
    """Return a time: ISO 8601, or a number of seconds or milliseconds since 1970; None if it is missing.

    Raises:
        BadValue: The value is no time, or has no offset while no time zone is given.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and _DATE.match(value):
        return _parse_text(value, reading)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue(_NO_TIME)
    try:
        number_of = float(value)
        return datetime.fromtimestamp(number_of / 1000 if abs(number_of) >= _EPOCH_MS else number_of, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadValue(_NO_TIME) from None


def _parse_text(value: str, reading: Reading) -> datetime:
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise BadValue(_NO_TIME) from None
    if moment.tzinfo is None:
        if reading.zone is None:
            raise BadValue("has no offset: give the time zone of such times (time_zone)")
        moment = moment.replace(tzinfo=reading.zone)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadValue(_NO_TIME) from None


def seconds(value: object, reading: Reading) -> float | None:
    """Return a time in seconds since 1970, or None if it is missing.

    Raises:
        BadValue: As for `parse_moment`.
    """
    moment = parse_moment(value, reading)
    return None if moment is None else moment.timestamp()


def number(value: object, low: float, high: float) -> float | None:
    """Return a number within limits, also one that is written as text; None if it is missing.

    Raises:
        BadValue: The value is no number or outside of the limits.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise BadValue("must be a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue("must be a number")
    if not low <= value <= high:  # also refuses NaN
        raise BadValue(f"must be {low:g} to {high:g}")
    return float(value)


def labels(value: object, separator: str = ";") -> list[str]:
    """Return labels: a list, or a text split by a separator. Empty ones are left out, each is listed once.

    Raises:
        BadValue: The value is neither, or has items that aren't text.
    """
    if value is None:
        return []
    items = value.split(separator) if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise BadValue("must be a list of texts")
    return list(dict.fromkeys(text for item in items if (text := item.strip())))


def derive_id(source: str, *parts: str) -> str:
    """Return a stable external id under the name of a source, from the parts that identify a record."""
    return f"{source}:{blake2b(chr(0).join(parts).encode(), digest_size=16).hexdigest()}"


def name_id(source: str, identifier: object) -> str:
    """Return the external id of a record with an id of its own; ids that are too long become a digest."""
    name = f"{source}:{identifier}"
    return name if len(name) <= NAME_MAX_CHARACTERS and "\0" not in name else derive_id(source, str(identifier))


def fit_metadata(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values that aren't empty, as metadata; None if nothing is left."""
    kept = {key: value for key, value in values.items() if value not in (None, "", [], {})}
    return kept or None


def fit_labels(values: Iterable[object]) -> tuple[str, ...]:
    """Return texts as labels of a memory: each once, shortened to the limits of number and length."""
    texts = (" ".join(value.split())[:256] for value in values if isinstance(value, str))
    return tuple(dict.fromkeys(text for text in texts if text))[:LABELS_MAX]


def build_memory(place: int, fields: Mapping[str, Any], reading: Reading, state: GivenState | None) -> Memory | Fault:
    """Return a memory from the fields of `MemoryIn`, or the fault that names each invalid field.

    Missing values are omitted, and the options' subject and thread are used where the record has none.
    """
    given = {name: value for name, value in fields.items() if value is not None and value not in ("", [])}
    if reading.options.subject is not None:
        given.setdefault("subject", reading.options.subject)
    if reading.options.thread is not None:
        given.setdefault("thread", reading.options.thread)
    if isinstance(text := given.get("text"), str) and text.isspace():
        return Fault(place, "text must not be blank")
    try:
        memory = msgspec.convert(given, MemoryIn)
        check(memory)
    except (msgspec.ValidationError, Invalid) as error:
        return Fault(place, describe(given, error))
    return Memory(place, memory, state)


def check(memory: MemoryIn) -> None:
    """Check what msgspec can't, as for a request.

    Raises:
        Invalid: A field is invalid.
    """
    check_closely(memory, None, None)
    if memory.occurred_at is not None:
        check_moment(memory.occurred_at, field_path(None, "occurred_at"))
    check_retention(memory, None)
    check_links(memory, None)
    check_written(memory, None)


def describe(given: object, error: Exception) -> str:
    """Return which fields of a record are invalid and why, with limits and lengths but without content."""
    if isinstance(error, Invalid):
        refused: Invalid | None = error
    else:
        faults = BodyFaults()
        faults.compare(given, MemoryIn)
        refused = faults.refusal()
    if refused is None:
        return "the record has another form than a memory"
    known = [each for each in refused.errors if each.field.split("[")[0].split(".")[0] in KNOWN]
    texts = [_phrase(each.field, each.message, each.value, each.limit) for each in known[:_FAULTS_SHOWN]]
    others = len(refused.errors) - len(texts)
    return "; ".join(texts + ([f"{others} more"] if others else [])) or "a field is unknown"


def _phrase(field: str, message: str, value: object, limit: object) -> str:
    path = "metadata" if field.startswith("metadata") else field
    numbers = [f"limit {limit}"] if isinstance(limit, int | float) else []
    if isinstance(value, int | float):
        numbers.append(f"it is {value}")
    return f"{path} {message}" + (f" ({', '.join(numbers)})" if numbers else "")


def read_fields(place: int, record: Mapping[str, Any], reading: Reading, *, separator: str = ";") -> Memory | Fault:
    """Return the memory of a record whose fields have Ebbing's names or are mapped; other fields become metadata."""
    values: dict[str, Any] = {}
    mapping = reading.options.map
    used: set[str] = set()
    for field, path in mapping.items():
        found, root = _descend(record, path)
        if found is not None:
            values[field] = found
        used.add(root)
    rest: dict[str, Any] = {}
    for key, value in record.items():
        if key in used:
            continue
        if key in KNOWN and key not in mapping:
            values[key] = value
        elif key != "metadata":
            rest[key] = value
    try:
        return _convert(place, values, rest, reading, separator)
    except _FieldFault as fault:
        return Fault(place, str(fault))


class _FieldFault(Exception):
    """A field's value can't be converted; the message names the field."""


def _convert(
    place: int, values: dict[str, Any], rest: dict[str, Any], reading: Reading, separator: str
) -> Memory | Fault:
    for name, value in values.items():
        try:
            values[name] = _convert_value(name, value, reading, separator)
        except BadValue as error:
            raise _FieldFault(f"{name} {error}") from None
    state = _read_state({name: values.pop(name, None) for name in STATE_FIELDS}, values, reading)
    metadata = values.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        values["metadata"] = fit_metadata(rest | (metadata or {}))
    if not values.get("external_id"):
        identity = msgspec.json.encode([values.get("text"), values.get("occurred_at"), values.get("thread"), rest])
        values["external_id"] = derive_id("import", identity.decode())
    return build_memory(place, values, reading, state)


def _convert_value(name: str, value: Any, reading: Reading, separator: str) -> Any:
    if name in _MOMENTS:
        return parse_moment(value, reading)
    if name in _LIMITS:
        return number(value, 0, _LIMITS[name])
    if name in _LISTS:
        return labels(value, separator)
    if name == "metadata" and isinstance(value, str):
        try:
            return msgspec.json.decode(value) if value else None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise BadValue("must be a JSON object") from None
    return str(value) if name in _TEXTS and isinstance(value, int) else value


def _read_state(given: Mapping[str, Any], values: Mapping[str, Any], reading: Reading) -> GivenState | None:
    if all(value is None for value in given.values()):
        return None
    first = given["created_at"] or values.get("occurred_at") or given["accessed_at"]
    created_at = min(reading.now if first is None else first.timestamp(), reading.now)
    used = given["accessed_at"]
    accessed_at = created_at if used is None else min(max(used.timestamp(), created_at), reading.now)
    promoted = given["promoted_at"]
    return GivenState(
        created_at,
        accessed_at,
        int(given["uses"] or 0),
        given["strength"],
        promoted_at=None if promoted is None else min(promoted.timestamp(), reading.now),
    )


def _descend(record: Mapping[str, Any], path: str) -> tuple[Any, str]:
    """Return the value at a path, and the first key of the path; a key that equals the path, dots included, wins."""
    if path in record:
        return record[path], path
    keys = path.split(".")
    value: Any = record
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None, keys[0]
        value = value[key]
    return value, keys[0]


def is_finite(*values: object) -> bool:
    """Return whether all values are finite numbers."""
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)
