"""Change a policy: merge changes into the current policy, validate the result, and list the changed fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.profiles import BUILT_IN, PROFILES
from app.domain.dynamics.proving import Unfit, check
from app.domain.ingest import json_input
from app.domain.ingest.near_names import suggest_field
from app.domain.policy.policy import Policy
from app.domain.policy.presets import PRESETS
from app.errors import UNKNOWN_FIELD, FieldError, Invalid, ProfileMissing

DEPTH_MAX: Final = 8
DYNAMIC: Final = frozenset({"forgetting", "importance", "tiers", "protection", "promotion"})
"""Fields that determine strengths, tiers or the next due moments."""

_SHOWN_CHARACTERS = 100
_TOLD = 20  # maximum number of invalid fields reported
_LARGEST = 2**63
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

Json = dict[str, Any]


@dataclass(frozen=True)
class FieldChange:
    """A changed field of a policy, by its path. `before` and `after` are None where the field has no value."""

    field: str
    before: Any
    after: Any


def read(given: Mapping[str, Any], place: str = "policy") -> Policy:
    """Validate a policy given as JSON; omitted fields get their defaults.

    Args:
        given: The policy's fields.
        place: Path of the policy in the request; errors prefix it to the names of fields.

    Raises:
        Invalid: Fields are invalid; the error lists their paths, limits and values.
    """
    try:
        policy = Policy.model_validate(given)
        return _with_parsed_parameters(policy)
    except ValidationError as error:
        reported = error.errors(include_url=False)[:_TOLD]
        raise Invalid(errors=[_field_error(place, detail) for detail in reported]) from None
    except Unfit as error:
        raise Invalid(errors=[FieldError(f"{place}.forgetting.parameters", str(error))]) from None


def amend_policy(policy: Policy, changes: Mapping[str, Any], preset: str | None = None) -> Policy:
    """Return the policy with these changes: an object changes only the fields it contains, null resets to the default.

    A change of profile discards the parameters of the previous profile.

    Args:
        policy: The current policy.
        changes: Fields, as in JSON.
        preset: Name of a preset, which is applied before the changes.

    Raises:
        Invalid: As for `read`, or the preset is unknown.
    """
    body = as_stored_json(policy)
    if preset is not None:
        if preset not in PRESETS:
            raise Invalid(errors=[FieldError("preset", f"isn't a known preset: use one of {', '.join(PRESETS)}")])
        body = _merge_change(body, PRESETS[preset])
    return read(_merge_change(body, changes))


def as_stored_json(policy: Policy) -> Json:
    """Return the policy in its stored JSON form."""
    body: Json = policy.model_dump(mode="json")
    return body


def as_full_json(policy: Policy) -> Json:
    """Return the policy as JSON with all parameters of its profile, including those at their defaults."""
    body = as_stored_json(policy)
    with suppress(ProfileMissing):  # without the profile, the stored parameters are returned
        dumped = _dumped(policy.forgetting.profile, policy.model.parameters)
        if policy.forgetting.profile == "spec":
            del dumped["importance"]
        body["forgetting"]["parameters"] = dumped
    return body


def list_differences(before: Policy, after: Policy) -> list[FieldChange]:
    """Return the changed fields; if the profile changes, parameters at their profile's defaults aren't compared."""
    if before.forgetting.profile == after.forgetting.profile:
        pair = as_full_json(before), as_full_json(after)
    else:
        pair = _without_defaults(before), _without_defaults(after)
    old, new = (dict(_leaves(body, "")) for body in pair)
    fields = list(dict.fromkeys((*old, *new)))
    return [FieldChange(field, old.get(field), new.get(field)) for field in fields if old.get(field) != new.get(field)]


def _merge_change(body: Json, changes: Mapping[str, Any]) -> Json:
    """Merge changes as in RFC 7396, except that a new profile discards the previous profile's parameters."""
    forgetting = changes.get("forgetting")
    if isinstance(forgetting, Mapping):
        new_profile = forgetting.get("profile", body["forgetting"]["profile"])
        if (new_profile or "spec") != body["forgetting"]["profile"]:
            body = body | {"forgetting": {}}
    return _merge_fields(body, changes, "policy", 0)


def _merge_fields(body: Json, changes: Mapping[str, Any], place: str, depth: int) -> Json:
    if depth > DEPTH_MAX:
        raise Invalid(errors=[FieldError(place, "is nested too deeply", None, DEPTH_MAX)])
    merged = dict(body)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            current = merged.get(name)
            inner = current if isinstance(current, dict) else {}
            merged[name] = _merge_fields(inner, value, f"{place}.{name[:_SHOWN_CHARACTERS]}", depth + 1)
        else:
            merged[name] = value
    return merged


def _with_parsed_parameters(policy: Policy) -> Policy:
    """Return the policy with the parameters as parsed by the profile, so that effective values are stored."""
    forgetting = policy.forgetting
    if forgetting.profile not in BUILT_IN and not isinstance(policy.model, MemoryDecay):
        check(policy.model)  # a custom decay function was tested when its model was built
    read_parameters = _select_given(_dumped(forgetting.profile, policy.model.parameters), forgetting.parameters)
    if "\\u0000" in msgspec.json.encode(read_parameters).decode():
        raise Invalid(
            errors=[FieldError("policy.forgetting.parameters", "contain a NUL character, which can't be stored")]
        )
    return policy.model_copy(update={"forgetting": forgetting.model_copy(update={"parameters": read_parameters})})


def _dumped(profile: str, parameters: Any) -> Json:
    adapter: TypeAdapter[Any] = TypeAdapter(PROFILES[profile].parameters)
    dumped: Json = adapter.dump_python(parameters, mode="json")
    return dumped


def _select_given(values: Json, given: Mapping[str, Any]) -> Json:
    """Return the values that also occur in `given`, at every depth."""
    return {
        name: _select_given(value, given[name])
        if isinstance(value, dict) and isinstance(given[name], Mapping)
        else value
        for name, value in values.items()
        if name in given
    }


def _without_defaults(policy: Policy) -> Json:
    """Return the policy as JSON with only those parameters that differ from the profile's defaults."""
    body = as_stored_json(policy)
    forgetting = policy.forgetting
    if forgetting.profile in PROFILES:
        own = dict(_leaves(as_full_json(policy)["forgetting"]["parameters"], ""))
        default = Policy.model_validate({"forgetting": {"profile": forgetting.profile}})
        defaults = dict(_leaves(as_full_json(default)["forgetting"]["parameters"], ""))
        body["forgetting"]["parameters"] = {
            name: value for name, value in own.items() if name not in defaults or defaults[name] != value
        }
    return body


def _leaves(body: Json, place: str) -> list[tuple[str, Any]]:
    """Return every value that isn't an object, with its path."""
    leaves: list[tuple[str, Any]] = []
    for name, value in body.items():
        if isinstance(value, dict):
            leaves += _leaves(value, f"{place}{name}.")
        else:
            leaves.append((f"{place}{name}", value))
    return leaves


def _field_error(place: str, found: Mapping[str, Any]) -> FieldError:
    """Convert a pydantic error; its value is a number, a short string or a string's length."""
    field = ".".join((place, *(str(part)[:_SHOWN_CHARACTERS] for part in found["loc"])))
    if found["type"] in _UNKNOWN:
        near = suggest_field(field.rpartition(".")[2], _names_beside(found["loc"]))
        return FieldError(field, UNKNOWN_FIELD, suggestion=near)
    return FieldError(
        field, json_input.reword_error(found), _shorten_value(found["input"]), json_input.violated_limit(found)
    )


def _names_beside(path: Sequence[str | int]) -> list[str]:
    """Return the names of the known fields in the object that contains the field at a path."""
    inner: Any = as_full_json(Policy())
    for part in path[:-1]:
        inner = inner.get(str(part)) if isinstance(inner, dict) else None
    return list(inner) if isinstance(inner, dict) else []


def _shorten_value(value: object) -> str | int | float | None:
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_CHARACTERS else len(value)
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return float(value)
    return value if isinstance(value, int | float) else None
