"""A tenant's policy: every choice about its memories that is the tenant's to make, validated in one place."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from app.domain.consolidation.parameters import Consolidation
from app.domain.consolidation.supersession import Supersession
from app.domain.dynamics.parameters import Share
from app.domain.dynamics.profiles import PROFILES, profile
from app.domain.dynamics.protocol import Dynamics
from app.domain.evaluation.self_tests import SelfTests
from app.domain.policy.night import Night
from app.domain.policy.stored_policy import STORED, is_stored
from app.domain.privacy.parameters import Privacy
from app.domain.recall.parameters import Recall
from app.domain.search.ranking import Ranking
from app.domain.strength.importance import Importance
from app.domain.strength.review import Review
from app.domain.tiers.lifecycle import Rules
from app.domain.tiers.protection import Protection
from app.domain.tiers.tiers import Tiers
from app.errors import ProfileMissing

# Text search configurations that every PostgreSQL brings along.
_LANGUAGES = """
arabic armenian basque catalan danish dutch english estonian finnish french german greek hindi hungarian
indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil
turkish yiddish simple
"""
LANGUAGES = frozenset(_LANGUAGES.split())

CMM_SALIENCE: Final = 0.5
"""What `cmm` gives any text: its salience says that something matters from above there on."""


class Budget(BaseModel):
    """A tenant's own hard limits for a day in UTC; the operator's are never exceeded by them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens of all models; 0 keeps memories away from a model that rates."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Money, in the unit of the operator's prices."""


class Forgetting(BaseModel):
    """Which model of forgetting a tenant's memories follow."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    profile: str = "spec"
    """`spec`, `mnemex`, `cmm`, `memory_decay`, or the name of one that the operator has installed."""
    parameters: dict[str, Any] = {}
    """Those of the profile that differ from its defaults; the importance of `spec` is the policy's own."""
    by_content: bool = False
    """`mnemex`: whether a memory's text sets its multiplier as it is scored: security 2.0, a decision 1.5, a preference
    1.3. A multiplier other than 1 that the text hasn't set is the caller's, or was raised by uses, and stays."""
    by_category: bool = False
    """`mnemex`: whether categories, the caller's or else inferred ones, set how fast time counts: credentials 0.5,
    ephemeral 2."""


class Reinforcement(BaseModel):
    """When a use makes a memory stronger."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    by_search: bool = True
    """Whether being found by a search counts as a use, unless the search says otherwise."""
    by_search_share: Share = 0.85
    """Share of the best result's score that a result must reach for that: what is merely listed along isn't used."""
    refractory_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 60.0
    """A memory is reinforced at most once in this time by one session."""


class Policy(BaseModel):
    """What a tenant may choose; stored as versioned JSON, so every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    language: str = "english"
    """Text search configuration of PostgreSQL; a change takes effect on a memory when it is next indexed."""
    time_zone: str = "UTC"
    """IANA name; the tenant's nights and the dates in its words follow it."""
    night: Night = Night()
    """When its memories are looked after."""
    ranking: Ranking = Ranking()
    """Weights of the search score."""
    budget: Budget = Budget()
    """What models may cost."""
    forgetting: Forgetting = Forgetting()
    """The model of forgetting."""
    decay_from: Literal["accepted", "occurred"] = "accepted"
    """From when on a new memory fades; `occurred` suits imports of old material."""
    importance: Importance = Importance()
    """What makes a memory important."""
    tiers: Tiers = Tiers()
    """Where the tiers begin."""
    protection: Protection = Protection()
    """What is never forgotten, or not yet."""
    privacy: Privacy = Privacy()
    """How long personal memories are kept."""
    consolidation: Consolidation = Consolidation()
    """When memories that belong together become one."""
    reinforcement: Reinforcement = Reinforcement()
    """When a use makes a memory stronger."""
    review: Review = Review()
    """When memories are reviewed."""
    recall: Recall = Recall()
    """What a conversation brings to mind."""
    self_tests: SelfTests = SelfTests()
    """How the service tests its own memory."""
    supersession: Supersession = Supersession()
    """What is done about memories that contradict earlier ones."""
    quota_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None
    """Room for the memories' texts and vectors; what is beyond it is told, and refused nowhere."""
    quota_near: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.8
    """Share of the quota from which on it is nearly used up."""
    history_days: Annotated[int, Field(ge=1, le=36_500)] = 365
    """How long it is kept what happened to a memory."""
    record_searches: bool = False
    """Whether searches are recorded, as ids and numbers without text, so that another policy can be tried on them.
    Turning it off deletes the records."""
    record_searches_days: Annotated[int, Field(ge=1, le=90)] = 14
    """How long a recorded search is retained."""

    @classmethod
    def stored(cls, body: str) -> Policy:
        """A policy as it was written, checked back then; its model is only looked for when it is needed."""
        return cls.model_validate_json(body, context=STORED)

    @property
    def rules(self) -> Rules:
        """What decides where a memory is kept."""
        if self.forgetting.profile != "cmm":
            return Rules(self.tiers, self.protection, self.privacy)
        least = max(self.protection.salience_above, CMM_SALIENCE)
        return Rules(self.tiers, replace(self.protection, salience_above=least), self.privacy)

    @cached_property
    def model(self) -> Dynamics:
        """The model of forgetting, with its parameters.

        Raises:
            ProfileMissing: It was installed when the policy was set, and isn't any more.
        """
        try:
            return _model(self.forgetting, self.importance)
        except ValueError as error:
            name = self.forgetting.profile
            reason = "takes other parameters now" if name in PROFILES else "isn't installed here"
            raise ProfileMissing(
                f"the policy's model of forgetting, {name!r}, {reason}: install it as it was; until then the "
                "tenant's memories are left as they are"
            ) from error

    @property
    def known_parameters(self) -> object:
        """Those of the model of forgetting; None where it isn't installed here."""
        try:
            return self.model.parameters
        except ProfileMissing:
            return None

    @model_validator(mode="after")
    def _makes_sense(self, info: ValidationInfo) -> Policy:
        if is_stored(info):
            return self
        if self.forgetting.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise _at(("profile",), ValueError(f"isn't a known profile: use one of {known}"), self.forgetting.profile)
        try:
            _model(self.forgetting, self.importance)
        except ValidationError as error:
            raise _placed(error) from None
        except ValueError as error:
            raise _at(("parameters",), error, self.forgetting.parameters) from None
        return self

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


def _model(forgetting: Forgetting, importance: Importance) -> Dynamics:
    if forgetting.profile != "spec":
        return profile(forgetting.profile, forgetting.parameters)
    if "importance" in forgetting.parameters:
        raise _at(("parameters", "importance"), ValueError("give it as the policy's own `importance`"), None)
    return profile("spec", {**forgetting.parameters, "importance": asdict(importance)})


def _at(place: tuple[str, ...], error: ValueError, given: object) -> ValidationError:
    """The error as that of a field of `forgetting`."""
    line: Any = {"type": "value_error", "loc": ("forgetting", *place), "input": given, "ctx": {"error": error}}
    return ValidationError.from_exception_data("Policy", [line])


def _placed(error: ValidationError) -> ValidationError:
    """The parameters' errors as those of fields of `forgetting`, unless they are already."""
    lines: list[Any] = [
        {
            "type": one["type"],
            "loc": one["loc"] if one["loc"][:1] == ("forgetting",) else ("forgetting", "parameters", *one["loc"]),
            "input": one["input"],
            "ctx": one.get("ctx", {}),
        }
        for one in error.errors(include_url=False)
    ]
    try:
        return ValidationError.from_exception_data("Policy", lines)
    except KeyError:  # a type of error that a plugin has made up
        return _at(("parameters",), ValueError("; ".join(one["msg"] for one in error.errors())), None)
