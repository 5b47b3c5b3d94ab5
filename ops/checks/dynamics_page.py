"""Write the tables of ops/dynamics.md from the code (`make docs`): parameters, presets, errata, a comparison."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from app.domain.consolidation.parameters import Consolidation
from app.domain.dynamics import memory_decay, mnemex
from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.profiles import profile
from app.domain.dynamics.spec import SpecParameters
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.evaluation.self_test_rules import SelfTests
from app.domain.strength import importance
from app.domain.strength.curve_points import CurveMemory, compute_curve
from app.domain.strength.review import ReviewParameters
from app.domain.tiers.decay_tier import TierThresholds
from app.domain.tiers.protection import Protection
from ops.checks.writing import ROOT, write

PAGE = ROOT / "ops" / "dynamics.md"
_PLACE = re.compile(r"(<!-- table: (?P<name>[\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COMPARED = ("spec", "mnemex", "cmm", "memory_decay")
_DAYS = (1.0, 7.0, 30.0, 90.0)


def page(text: str) -> str:
    """Return the page with every table regenerated.

    Raises:
        KeyError: The page requests an unknown table.
    """
    return _PLACE.sub(lambda found: found[1] + TABLES[found["name"]]() + found[3], text)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _parameters(shape: Any, *, without: str = "") -> str:
    rows = [row for row in _fields(shape, "") if row[0].partition(".")[0] != without]
    return _table(
        ["parameter", "default", "allowed", "description"],
        [[f"`{path}`", default and f"`{default}`", *rest] for path, default, *rest in rows],
    )


def _fields(shape: Any, place: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, default, range and description of each parameter; a group precedes its members."""
    for name, field in shape.__pydantic_fields__.items():
        path, text = f"{place}{name}", " ".join((field.description or "").split())
        if is_dataclass(field.default):
            yield path, "", "", text
            yield from _fields(type(field.default), f"{path}.")
        else:
            yield path, _number(field.default), _range(field), text


def _range(field: Any) -> str:
    if typing.get_origin(field.annotation) is typing.Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(field.annotation))
    if field.annotation is bool:
        return "`True`, `False`"
    if typing.get_origin(field.annotation) is tuple:
        most = next((each.max_length for each in field.metadata if hasattr(each, "max_length")), None)
        return f"up to {most} names" if most else "kinds of memory"
    optional = [kind for kind in typing.get_args(field.annotation) if kind is not type(None)]
    # `Annotated[float, Field(ge=0)] | None` has its bounds inside the union.
    infos = [info for kind in optional for info in getattr(kind, "__metadata__", ())]
    inner = [each for info in infos for each in getattr(info, "metadata", ())]
    metadata = [*field.metadata, *inner]
    bounds = {
        name: getattr(each, name)
        for each in metadata
        for name in ("gt", "ge", "lt", "le")
        if getattr(each, name, None) is not None
    }
    low = f"over {_number(bounds['gt'])}" if "gt" in bounds else _number(bounds.get("ge", ""))
    high = f"under {_number(bounds['lt'])}" if "lt" in bounds else _number(bounds.get("le", ""))
    return f"{low} to {high}"


def _number(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _presets(presets: dict[str, Any]) -> str:
    """Return the values of each preset, with a column for each value that differs between presets."""
    held = {name: asdict(parameters) for name, parameters in presets.items()}
    first = next(iter(held.values()))
    names = [name for name, value in first.items() if any(each[name] != value for each in held.values())]
    rows = [[f"`{preset}`", *(_number(values[name]) for name in names)] for preset, values in held.items()]
    return _table(["preset", *(f"`{name}`" for name in names)], rows)


def _comparison() -> str:
    tiers = TierThresholds()
    thresholds = (tiers.archived_below, tiers.cold_below, tiers.deleted_below)
    rows = []
    for name in _COMPARED:
        for salience, uses in ((0.2, 0), (0.5, 0), (0.9, 0), (0.5, 5)):
            found = compute_curve(profile(name), CurveMemory(salience, uses=uses), [0.0, *_DAYS], thresholds)
            below = [found.below_days[threshold] for threshold in thresholds]
            strengths = [f"{found.at(day):.3f}" for day in _DAYS]
            rows.append([f"`{name}`", f"{salience:g}", str(uses), *strengths, *map(_day, below)])
    days = [f"day {day:g}" for day in _DAYS]
    return _table(["profile", "salience", "uses", *days, *(f"below {each:g}" for each in thresholds)], rows)


def _day(day: float) -> str:
    return "never" if math.isinf(day) else f"{day:,.1f} d"


def _errata() -> str:
    exponential = Mnemex(MnemexParameters(curve="exponential"))

    def share(days: float) -> float:
        return float(compute_curve(exponential, CurveMemory(), [0.0, days], ()).strengths[-1])

    def scored(uses: int, days: float, multiplier: float) -> float:
        return float(np.float64(uses) ** 0.6 * share(days) * multiplier)

    def rate(half_life_days: float) -> float:
        return math.log(2) / (half_life_days * DAY_SECONDS)

    rows = [
        ["000, decay component", "remaining share after 12 hours", "0.917", f"{share(0.5):.3f}"],
        ["000, decay component", "after 1 day", "0.841", f"{share(1):.3f}"],
        ["000, decay component", "after 7 days", "0.210", f"{share(7):.3f}"],
        ["000, decay component", "after 14 days", "0.044", f"{share(14):.3f}"],
        ["000, use count component", "factor for 50 uses", "11.45", f"{50**0.6:.2f}"],
        ["000, core formula", "λ · 10⁶ for a half-life of 3 days, per second", "2.673", f"{rate(3) * 1e6:.3f}"],
        ["000, promote threshold, scenario 1", "score", "3.82", f"{scored(3, 1 / 24, 2):.2f}"],
        ["000, worked example A", "decision for a score of 0.944", "keep", _decision(scored(1, 0.25, 1))],
        ["000, worked example B", "decay; score", "0.629; 1.84", f"{share(2):.3f}; {scored(6, 2, 1):.2f}"],
        ["000, strength modulation", "score for s = 2 after a day, as plotted", "2.0", f"{scored(1, 1, 2):.2f}"],
        ["001, configuration tuning", "λ · 10⁶ for a half-life of 7 days, per second", "1.145", f"{rate(7) * 1e6:.3f}"],
    ]
    return _table(["seed, section", "value", "printed", "by the formula"], rows)


def _decision(score: float) -> str:
    p = MnemexParameters()
    return "promote" if score >= p.promote_from else "forget" if score < p.forget_below else "keep"


TABLES: dict[str, Callable[[], str]] = {
    "spec": lambda: _parameters(SpecParameters, without="importance"),
    "importance": lambda: _parameters(importance.Importance),
    "weights": lambda: _presets(importance.PRESETS),
    "mnemex": lambda: _parameters(MnemexParameters),
    "mnemex presets": lambda: _presets(mnemex.PRESETS),
    "cmm": lambda: _parameters(CmmParameters),
    "memory decay": lambda: _parameters(memory_decay.MemoryDecayParameters),
    "memory decay presets": lambda: _presets(memory_decay.PRESETS),
    "tiers": lambda: _parameters(TierThresholds),
    "protection": lambda: _parameters(Protection),
    "consolidation": lambda: _parameters(Consolidation),
    "review": lambda: _parameters(ReviewParameters),
    "self-tests": lambda: _parameters(SelfTests),
    "comparison": _comparison,
    "errata": _errata,
}


if __name__ == "__main__":
    write(PAGE, page(PAGE.read_text()))
