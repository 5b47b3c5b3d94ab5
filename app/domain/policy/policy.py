"""A tenant's policy: all settings that the tenant controls, validated in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from app.domain.consolidation.parameters import Consolidation
from app.domain.consolidation.supersession import Supersession
from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.mnemex import MnemexParameters
from app.domain.dynamics.parameter_types import Share
from app.domain.dynamics.profiles import PROFILES, profile
from app.domain.dynamics.protocol import Dynamics
from app.domain.evaluation.self_test_rules import SelfTests
from app.domain.policy.night_hours import Night
from app.domain.policy.stored_policy import STORED, is_stored
from app.domain.privacy.parameters import Privacy
from app.domain.recall.parameters import Recall
from app.domain.search.parameters import Ranking
from app.domain.strength.importance import Importance
from app.domain.strength.promotion import Promotion
from app.domain.strength.review import ReviewParameters
from app.domain.tiers.decay_tier import TierThresholds
from app.domain.tiers.protection import KEEP_ABOVE, Protection
from app.domain.tiers.tier_decision import TierRules
from app.errors import ProfileMissing

# Text search configurations that every PostgreSQL installation includes.
_LANGUAGES = """
arabic armenian basque catalan danish dutch english estonian finnish french german greek hindi hungarian
indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil
turkish yiddish simple
"""
LANGUAGES = frozenset(_LANGUAGES.split())

CMM_SALIENCE: Final = 0.5
"""Salience that `cmm` assigns to ordinary text; only higher values mark a memory as important."""


class Budget(BaseModel):
    """A tenant's own hard limits per day in UTC; they can't exceed the operator's."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens of all models together; 0 disables all calls to the provider's models."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Cost, in the unit of the operator's prices."""


class Forgetting(BaseModel):
    """Forgetting model of a tenant's memories."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    profile: str = "spec"
    """`spec`, `mnemex`, `cmm`, `memory_decay`, or the name of a profile that the operator has installed."""
    parameters: dict[str, Any] = {}
    """Parameters that differ from the profile's defaults. Set the importance parameters of `spec` in the policy's field
    `importance`."""
    by_content: bool = False
    """`mnemex`: set a memory's multiplier from its text when it is scored: security 2.0, decision 1.5, preference 1.3.
    A multiplier other than 1 that wasn't set from the text was given by the caller or raised by uses, and is left
    unchanged."""
    by_category: bool = False
    """`mnemex`: scale the decay rate by the caller's categories, or by inferred ones if there are none:
    credentials 0.5, ephemeral 2."""
    learned: Literal["off", "propose", "apply"] = "off"
    """Learn the profile's rates of forgetting from uses, at night, once a week: `propose` shows the result with the
    policy, `apply` also writes it as a policy version, which changes a rate by a factor of at most 1.5."""

    @model_validator(mode="before")
    @classmethod
    def _with_age_from(cls, given: object, info: ValidationInfo) -> object:
        """Add `cmm`'s parameter `age_from` if it is missing: `last_use` in stored policies, otherwise its default."""
        if not isinstance(given, Mapping) or given.get("profile") != "cmm":
            return given
        parameters = given.get("parameters", {})
        if not isinstance(parameters, Mapping) or "age_from" in parameters:
            return given
        age_from = "last_use" if is_stored(info) else CmmParameters().age_from
        return {**given, "parameters": {**parameters, "age_from": age_from}}


class Reinforcement(BaseModel):
    """Settings for strengthening memories when they are used."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    by_search: bool = True
    """Count appearing in search results as a use, unless the search says otherwise."""
    by_observation: bool = True
    """Count uses reported by `POST /v1/observations` (seed 001, automatic reinforcement), under `mnemex` also as
    reviews. If off, they change no memory. A touch of one memory always counts."""
    by_search_share: Share = 0.85
    """Minimum share of the best result's score that a result needs to count as used; lower results are
    returned, but don't count as used."""
    refractory_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 60.0
    """Refractory period during which a session reinforces a memory at most once."""


class Changes(BaseModel):
    """Settings of a tenant's change feed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    keep_days: Annotated[int, Field(ge=0, le=365)] = 7
    """Retention of changes in days; 0 switches the feed off, and webhooks with it."""


class Policy(BaseModel):
    """Settings of a tenant; stored as versioned JSON, so every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    language: str = "english"
    """Text search configuration of PostgreSQL; a change applies to a memory when it is next indexed."""
    time_zone: str = "UTC"
    """IANA name of the time zone for the tenant's nights and for dates in its texts."""
    night: Night = Night()
    """Schedule of nightly maintenance."""
    ranking: Ranking = Ranking()
    """Weights of the search score."""
    budget: Budget = Budget()
    """Limits on model spending."""
    forgetting: Forgetting = Forgetting()
    """Forgetting model."""
    decay_from: Literal["accepted", "occurred"] = "accepted"
    """Start of a new memory's decay; `occurred` suits imports of old material."""
    importance: Importance = Importance()
    """Weights of a memory's importance."""
    tiers: TierThresholds = TierThresholds()
    """Thresholds of the tiers."""
    protection: Protection = Protection()
    """Memories that are protected from being forgotten, permanently or for a time."""
    promotion: Promotion = Promotion()
    """Effect of promotion."""
    privacy: Privacy = Privacy()
    """Retention periods of personal memories."""
    consolidation: Consolidation = Consolidation()
    """Grouping and summarising of similar memories."""
    reinforcement: Reinforcement = Reinforcement()
    """Strengthening of memories when they are used."""
    review: ReviewParameters = ReviewParameters()
    """Scheduling of memory reviews."""
    recall: Recall = Recall()
    """Selection of memories for a conversation."""
    self_tests: SelfTests = SelfTests()
    """Self-tests of the tenant's memory."""
    supersession: Supersession = Supersession()
    """Handling of memories that contradict earlier ones."""
    changes: Changes = Changes()
    """Feed of changes."""
    quota_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None
    """Quota for the memories' texts and vectors; exceeding it is reported, but nothing is refused."""
    quota_near: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.8
    """Share of the quota above which it is reported as nearly used up, and a consolidation starts."""
    history_days: Annotated[int, Field(ge=1, le=36_500)] = 365
    """Retention period of memories' event history."""
    record_searches: bool = False
    """Record searches, as ids and numbers without text, so that another policy can be tried on them. Turning it off
    deletes the records."""
    record_searches_days: Annotated[int, Field(ge=1, le=90)] = 14
    """Retention period of recorded searches."""

    @classmethod
    def load_stored(cls, body: str) -> Policy:
        """Load a stored policy, which was validated when written; its model is resolved only on first use.

        Unknown fields are ignored: during an upgrade, processes of a newer version write policies that processes of
        this version read.
        """
        return cls.model_validate_json(body, context=STORED, extra="ignore")

    def dump_stored(self) -> str:
        """Return the JSON to store, from which `load_stored` reads an equal policy.

        Fields that are null by default are left out while they are null: during an upgrade, a process of an earlier
        version may not accept null in them. Null in other fields is a value, such as a retention period without limit.
        """
        return json.dumps(_without_unset(self.model_dump(mode="json"), Policy().model_dump(mode="json")))

    @property
    def rules(self) -> TierRules:
        """Rules that determine a memory's tier."""
        keeps = self.promotion.keeps
        if self.forgetting.profile != "cmm":
            return TierRules(self.thresholds, self.protection, self.privacy, keeps_promoted=keeps)
        protection = self.protection
        if protection.salience_above is not None:
            protection = replace(protection, salience_above=max(protection.salience_above, CMM_SALIENCE))
        return TierRules(self.thresholds, protection, self.privacy, CMM_SALIENCE, keeps)

    @property
    def thresholds(self) -> TierThresholds:
        """Thresholds of the tiers; `mnemex`'s `forget_below` replaces a `deleted_below` at its default (seed 000)."""
        parameters = self.known_parameters if self.forgetting.profile == "mnemex" else None
        if not isinstance(parameters, MnemexParameters) or self.tiers.deleted_below != TierThresholds().deleted_below:
            return self.tiers
        return replace(self.tiers, deleted_below=min(parameters.forget_below, self.tiers.cold_below))

    @cached_property
    def model(self) -> Dynamics:
        """Forgetting model with its parameters.

        Raises:
            ProfileMissing: The profile was installed when the policy was set, but isn't now, or it has other
                parameters.
        """
        try:
            return _model(self.forgetting, self.importance)
        except ValueError as error:
            name = self.forgetting.profile
            reason = "takes other parameters now" if name in PROFILES else "isn't installed here"
            raise ProfileMissing(
                f"the policy's forgetting model {name!r} {reason}: install the version with which the policy was set; "
                "until then, the tenant's memories aren't maintained"
            ) from error

    @property
    def known_parameters(self) -> object:
        """Parameters of the forgetting model, or None if it isn't installed here."""
        try:
            return self.model.parameters
        except ProfileMissing:
            return None

    @model_validator(mode="after")
    def _makes_sense(self, info: ValidationInfo) -> Policy:
        if is_stored(info):
            return self
        self._check_protection()
        if self.forgetting.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise _field_error(
                ("forgetting", "profile"),
                ValueError(f"isn't a known profile: use one of {known}"),
                self.forgetting.profile,
            )
        try:
            _model(self.forgetting, self.importance)
        except ValidationError as error:
            raise _locate_errors(error) from None
        except ValueError as error:
            raise _field_error(("forgetting", "parameters"), error, self.forgetting.parameters) from None
        self._check_forget_below()
        return self

    def _check_protection(self) -> None:
        """Refuse settings of the keep chance that would have no effect because `protection.salience_above` is set."""
        if self.protection.salience_above is None:
            return
        reason = ValueError("has no effect while `protection.salience_above` is set: set that to null")
        if self.protection.keep_chance_above != KEEP_ABOVE:
            raise _field_error(("protection", "keep_chance_above"), reason, self.protection.keep_chance_above)
        if self.tiers.target_active_share is not None:
            raise _field_error(("tiers", "target_active_share"), reason, self.tiers.target_active_share)

    def _check_forget_below(self) -> None:
        """Refuse a forgetting threshold of `mnemex` above the one of cold storage, which comes before deletion.

        It isn't checked if `tiers.deleted_below` applies in its place.
        """
        forget_below = self.forgetting.parameters.get("forget_below", 0)
        is_used = self.forgetting.profile == "mnemex" and self.tiers.deleted_below == TierThresholds().deleted_below
        if is_used and forget_below > self.tiers.cold_below:
            error = ValueError(f"must be at most tiers.cold_below, which is {self.tiers.cold_below:g}")
            raise _field_error(("forgetting", "parameters", "forget_below"), error, forget_below)

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str) -> str:
        if language not in LANGUAGES:
            raise ValueError(f"isn't a known language: use one of {', '.join(sorted(LANGUAGES))}")
        return language

    @field_validator("time_zone")
    @classmethod
    def _known_time_zone(cls, time_zone: str) -> str:
        try:
            return ZoneInfo(time_zone).key
        except (ZoneInfoNotFoundError, ValueError, OSError) as unknown:
            raise ValueError("isn't a known time zone: use an IANA name such as 'Europe/Berlin'") from unknown


def _without_unset(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without the fields that are null and whose default is null, at any depth."""
    return {
        name: _without_unset(value, defaults.get(name) or {}) if isinstance(value, Mapping) else value
        for name, value in body.items()
        if value is not None or defaults.get(name) is not None
    }


def _model(forgetting: Forgetting, importance: Importance) -> Dynamics:
    if forgetting.profile != "spec":
        return profile(forgetting.profile, forgetting.parameters)
    if "importance" in forgetting.parameters:
        error = ValueError("must be set in the policy's field `importance`")
        raise _field_error(("forgetting", "parameters", "importance"), error, None)
    return profile("spec", {**forgetting.parameters, "importance": asdict(importance)})


def _field_error(place: tuple[str, ...], error: ValueError, given: object) -> ValidationError:
    """Return a validation error for the field at this path."""
    line: Any = {"type": "value_error", "loc": place, "input": given, "ctx": {"error": error}}
    return ValidationError.from_exception_data("Policy", [line])


def _locate_errors(error: ValidationError) -> ValidationError:
    """Prefix the error locations with `forgetting.parameters`, unless they already start with `forgetting`."""
    lines: list[Any] = [
        {
            "type": detail["type"],
            "loc": detail["loc"]
            if detail["loc"][:1] == ("forgetting",)
            else ("forgetting", "parameters", *detail["loc"]),
            "input": detail["input"],
            "ctx": detail.get("ctx", {}),
        }
        for detail in error.errors(include_url=False)
    ]
    try:
        return ValidationError.from_exception_data("Policy", lines)
    except KeyError:  # an error type defined by a plugin
        return _field_error(
            ("forgetting", "parameters"), ValueError("; ".join(detail["msg"] for detail in error.errors())), None
        )
