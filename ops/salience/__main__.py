"""Fit the keep chance and show its figures on conversations that the weights haven't seen.

    python -m ops.salience CHATS LOCOMO BEAM [--write]

Each argument is a dataset in a format of `ops.recall`; datasets are never part of the repository. Without `--write`,
nothing is changed. The figures are of weights that were fitted without the conversation, then without the dataset.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from app.domain.salience import keep_chance
from app.domain.salience.features import Floats
from app.domain.tiers.keep_rule import SALIENCE_SLOPE
from app.domain.tiers.protection import KEEP_ABOVE
from ops.salience import figures, fitting
from ops.salience.examples import Group, read_conversations, read_labelled, read_parallel
from ops.salience.fitting import Fit

WEIGHTS: Final = Path(keep_chance.__file__).with_name("keep_weights.toml")
ROLES: Final = (None, "user", "assistant")
THRESHOLDS: Final = (
    *(0.05, 0.075, 0.09, 0.1, 0.105, 0.108, 0.11, 0.112, 0.115, 0.12, 0.125, 0.13, 0.14, 0.15),
    *(0.2, 0.25, 0.3, 0.4, 0.5),
)
"""Thresholds of the keep chance whose kept shares are shown, densely around the default."""


def main(arguments: Sequence[str]) -> int:
    """Fit, show the figures, and write the weights if asked to."""
    parser = argparse.ArgumentParser(prog="python -m ops.salience", description=__doc__)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="replace the weights in app/domain/salience")
    options = parser.parse_args(arguments)
    pairs = [pair for path in options.datasets for pair in read_conversations(path)]
    talks, copies = [pair.plain for pair in pairs], [pair.terse for pair in pairs]
    groups = [*talks, *copies, *read_labelled("dev")]
    all_by_talk = fitting.predict_left_out(groups, lambda group: f"{group.dataset} {group.name}")
    by_talk, of_copies = all_by_talk[: len(talks)], all_by_talk[len(talks) : len(talks) + len(copies)]
    by_set = fitting.predict_left_out(groups, lambda group: group.dataset)[: len(talks)]
    for name, scores in (
        ("salience of the rules", [group.salience for group in talks]),
        ("fitted, conversation left out", by_talk),
        ("fitted, dataset left out", by_set),
        ("as shipped", [keep_chance.chances(group.features) for group in talks]),
    ):
        _show_areas(name, talks, scores)
    _show_areas("terse copies of short memories, conversation left out", copies, of_copies)
    intercept, slope = fitting.calibrate(talks, by_talk)
    if len(talks) > 1:
        unfitted = fitting.calibrate_left_out(talks, by_talk)
        _show_kept(talks, unfitted)
        _show_reliability(talks, unfitted)
    else:
        print("\nkept and reliability: at least two conversations are needed, since each is left out once")
    _, by_salience = fitting.calibrate(talks, [group.salience for group in talks])
    print(f"\nlog-odds of mattering that a salience higher by 1 adds: {by_salience:.1f} (shipped {SALIENCE_SLOPE:g})")
    fit = fitting.fit_weights(groups)
    checked = read_labelled("check").plain
    _show_areas("labelled texts, other half", [checked], [fit.odds(checked.features)])
    plain = Fit(intercept + slope * fit.intercept, slope * fit.weights, fit.means)
    _show_languages(plain)
    calibrated = fitting.fit_languages(plain, read_parallel())
    if options.write:
        WEIGHTS.write_text(_format_weights(calibrated), encoding="utf-8")
        print("\nIncrement CHANCES_VERSION in app/domain/tiers/keep_calibration.py.")
    return 0


def _show_languages(fit: Fit) -> None:
    """Print how much the chances of translated statements differ from those in English, in log-odds."""
    parallel = read_parallel()
    english = fit.odds(parallel["en"])
    print("\nlog-odds of translations, fitted without the language: mean, spread, correlation with English")
    for name, features in parallel.items():
        others = {each: rows for each, rows in parallel.items() if each != name or each == "en"}
        odds = fitting.fit_languages(fit, others).odds(features)
        print(f"  {name:4} {odds.mean():6.2f} {odds.std():6.2f} {np.corrcoef(odds, english)[0, 1]:6.2f}")


def _show_areas(name: str, groups: Sequence[Group], scores: Sequence[Floats]) -> None:
    print(f"\n{name}: area under the ROC curve [95 % interval]")
    for dataset in dict.fromkeys(group.dataset for group in groups):
        places = [place for place, group in enumerate(groups) if group.dataset == dataset]
        chosen, their = [groups[place] for place in places], [scores[place] for place in places]
        for role in ROLES:
            if role is None or any(role in group.roles for group in chosen):
                value, low, high, count = figures.area(chosen, their, role)
                print(f"  {dataset:10} {role or 'all':10} {value:.3f} [{low:.3f}, {high:.3f}]  {count} matter")


def _show_kept(groups: Sequence[Group], chances: Sequence[Floats]) -> None:
    print("\nshares above a threshold of the keep chance, conversation left out (matters / doesn't)")
    print(f"  the default threshold is {KEEP_ABOVE:g}")
    sets = list(dict.fromkeys(group.dataset for group in groups))
    print("  threshold  " + "".join(f"{name:>18}" for name in sets))
    for threshold in THRESHOLDS:
        cells = []
        for dataset in sets:
            places = [place for place, group in enumerate(groups) if group.dataset == dataset]
            high, low = figures.split_scores([groups[p] for p in places], [chances[p] for p in places])
            cells.append(f"{(high > threshold).mean():.3f} / {(low > threshold).mean():.3f}")
        print(f"  {threshold:9.3f}  " + "".join(f"{cell:>18}" for cell in cells))


def _show_reliability(groups: Sequence[Group], chances: Sequence[Floats]) -> None:
    print("\nreliability on unfitted data, by tenths of the memories (mean chance → share that matters, memories)")
    for dataset in dict.fromkeys(group.dataset for group in groups):
        places = [place for place, group in enumerate(groups) if group.dataset == dataset]
        bins = figures.reliability([groups[p] for p in places], [chances[p] for p in places])
        print(f"  {dataset}")
        for mean, share, size in bins:
            print(f"    {mean:.3f} → {share:.3f}  {size:5}  {'#' * round(40 * share):40}|")
        print(f"    expected calibration error {figures.calibration_error(bins):.3f}")


def _format_weights(fit: Fit) -> str:
    """Return the data file: the log-odds of an average memory, and each feature's weight and mean."""
    lines = [
        "# Written by `python -m ops.salience --write`; don't edit it by hand.",
        "",
        f"intercept = {fit.intercept:.4f}",
        f"stretch = {fit.stretch:.4f}",
        "",
        "[weights]  # feature = [weight, mean]",
    ]
    for name, weight, mean in zip(keep_chance.FEATURES, fit.weights.tolist(), fit.means.tolist(), strict=True):
        if abs(weight) >= 0.0005:
            lines.append(f'"{name}" = [{weight:.4f}, {mean:.4f}]')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
