"""Measure the quality of consolidation's summaries by probes, write a sheet for people to rate, or read their ratings.

    python -m ops.summaries probes
    python -m ops.summaries sheet --output sheet.csv
    python -m ops.summaries ratings

The sheet contains summaries of the model in the settings, if they name a provider. The probes use the tests' provider,
which is honest and simple, to show how much the checks accept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app.clients.llm.chat_model import ChatModel
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed
from app.domain.consolidation.extractive_summary import extract_summary
from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.summary_checks import FAULTS, prompt
from app.settings import Settings, settings
from ops.summaries import probes, ratings, sheet
from tests.provider.server import provider


def main(arguments: Sequence[str]) -> int:
    """Print the table of probes, write the sheet, or write the page of ratings."""
    parser = argparse.ArgumentParser(prog="python -m ops.summaries", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("probes", help="measure the facts of labelled groups that summaries retain")
    rated = commands.add_parser("sheet", help=f"{sheet.SUMMARIES} summaries for people to rate")
    rated.add_argument("--output", type=Path, default=Path("summaries.csv"), help="file to write (%(default)s)")
    commands.add_parser("ratings", help="write ops/summaries.md from the filled-in sheets in ops/summaries/rated")
    given = parser.parse_args(arguments)
    if given.command == "ratings":
        try:
            ratings.PAGE.write_text(ratings.page(ratings.list_sheets()), encoding="utf-8")
        except ratings.FaultySheet as fault:
            print(fault, file=sys.stderr)
            return 1
        return 0
    if given.command == "probes":
        print(_probed())
        return 0
    config = settings()
    way = by_model(model_clients.summariser) if config.has_provider else extract_summary
    sheet.write(given.output, probes.labelled(), way)
    print(f"written: {given.output}, {sheet.SUMMARIES} summaries")
    return 0


def by_model(model: ChatModel) -> probes.Summarise:
    """Return a function that summarises by a model, and extracts sentences of the sources if its output is rejected."""

    def summarise(sources: Sequence[Source], form: Form, level: Level) -> Summary:
        extracted = extract_summary(sources, form, level)
        fault = None
        for _ in range(2):
            try:
                return model.ask(prompt(sources, form, level, extracted, model.model, fault))
            except ProviderFailed as failure:
                fault = failure.detail if failure.detail in FAULTS else None
                print(f"rejected: {failure}", file=sys.stderr)
        return extracted

    return summarise


def _probed() -> str:
    groups = probes.labelled()
    rows = [("extractive", probes.probe(groups, level, extract_summary)) for level in probes.LEVELS]
    with provider() as fake:
        config = Settings(openai_base_url=fake.url)
        model = ChatModel.from_settings(config, config.summarising_model, config.llm_timeout_seconds)
        rows += [("model", probes.probe(groups, level, by_model(model))) for level in probes.LEVELS]
        model.close()
    return probes.table(rows, len(groups))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
