"""The readable page of an export: contents, sections of dated memories, and the language of its texts."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from app.domain.privacy import export_page
from app.domain.privacy.documents.texts import ENGLISH
from app.domain.privacy.export import NewExport
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import Extension, NewRequest
from app.services.privacy import export_archive, export_requests, legal_holds, request_log
from tests.services.export_store import Vault, vault

__all__ = ["vault"]


def shown(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.mark.parametrize("kind", ["access", "portable"])
def test_the_contents_lead_to_sections_of_dated_memories(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(export_page, "PAGE_MEMORIES", 2)
    vault.remember(
        *({"text": f"heron {n}", "subject": "ann", "occurred_at": f"2026-03-0{9 - n}T10:00:00Z"} for n in range(5))
    )
    page = vault.opened(vault.made(kind))["index.html"].decode()  # type: ignore[arg-type]
    anchors = re.findall(r'href="#([\w-]+)"', page)
    assert anchors == [
        "memories-0",
        "memories-1",
        "memories-2",
        *(["recipients", "terms"] if kind == "access" else []),
        "files",
    ]
    for anchor in anchors:
        assert page.count(f'id="{anchor}"') == 1
    text = shown(page)
    for title in (
        "Memories 1 to 2 (8 March 2026 to 9 March 2026)",
        "Memories 3 to 4 (6 March 2026 to 7 March 2026)",
        "Memories 5 to 5 (5 March 2026 to 5 March 2026)",
    ):
        assert text.count(title) == 2, "in the contents and above the memories"
    assert [f"Memory {n} heron {n - 1}" in text for n in range(1, 6)] == [True] * 5
    assert page.count("<section") == page.count("</section>")
    assert "break-before:page" in page
    assert "5 March 2026, 10:00 UTC" in text
    assert ("Memories about other people are not part of this export" in text) == (kind == "access")
    assert ("can move to a lower tier or be deleted from this day on; a use can postpone this" in text) == (
        kind == "access"
    )
    assert "counter(pages)" in page
    assert ("no transfer of memories to other computers" in text) == (kind == "access")


def test_the_page_of_somebody_unknown_says_so(vault: Vault) -> None:
    page = vault.opened(vault.made("portable", "nobody"))["index.html"].decode()
    assert "No memories are stored about this person." in shown(page)
    assert page.count("<section") == page.count("</section>")


@pytest.mark.parametrize("kind", ["access", "portable"])
def test_the_page_names_its_request_and_explains_its_files(vault: Vault, kind: str) -> None:
    vault.remember({"text": "We met Mei Chen at 12 High Street", "subject": "ann"})
    request = request_log.create(
        vault.tenant_id,
        NewRequest(kind, "gdpr", controller="Example <Ltd>", case_reference="DSR-17"),  # type: ignore[arg-type]
    )
    extension = Extension("<both> parents ask", months=1, notified_at=request.received_at)
    extended = request_log.extend(vault.tenant_id, request.request_id, extension, "key")
    given = NewExport("ann", request_id=request.request_id)
    export = export_requests.request_export(vault.tenant_id, given, "key")
    vault.work(export.job_id)
    files = vault.opened(export_requests.get(vault.tenant_id, export.export_id))
    page = shown(files["index.html"].decode())
    assert f"Controller Example <Ltd> Case reference DSR-17 Request ID {request.request_id}" in page
    assert f"Request received {ENGLISH.moment(request.received_at)}" in page
    deadline = f"Deadline after the extension {ENGLISH.day(extended.due_at)}"
    assert f"{deadline} Reason for the extension <both> parents ask" in page
    if kind == "portable":
        assert "given.jsonl the data above, as it was submitted: 1 line" in page
        return
    assert re.search(
        r"service.jsonl data of the memory service that belongs to no single memory, [^:]+: \d+ lines", page
    )
    assert "names of people and street addresses detected in the text 2" in page
    assert re.search(
        r"reason for retention as of \d+ \w+ \d{4}: memories aren.t moved or deleted for lack of use ", page
    )


def test_the_page_is_written_with_the_operators_texts(vault: Vault, tmp_path: Path) -> None:
    english = Path(export_page.__file__).parent / "documents" / "en.toml"
    translation = tmp_path / "de.toml"
    text = english.read_text().replace('"Contents"', '"Inhalt"').replace('language = "en"', 'language = "de"')
    translation.write_text(text)
    vault.service.configure(document_texts=translation)
    vault.remember({"text": "ein Reiher", "subject": "ann"})
    page = vault.opened(vault.made())["index.html"].decode()
    assert '<html lang="de">' in page
    assert "Inhalt" in page


def test_the_memories_are_counted_in_the_file_that_the_page_shows(vault: Vault) -> None:
    vault.remember({"text": "a heron", "subject": "ann"})
    export = vault.made()
    assert len(list(export_archive.stream_archive(vault.tenant_id, export.export_id, "key"))) > 1
    counted = export_page.PageContents()
    counted.count_line(vault.opened(export)["memories.jsonl"].splitlines()[0])
    [section] = counted.sections
    assert (section.memories, section.earliest) == (1, section.latest)


def test_a_memory_under_legal_hold_has_no_date_of_deletion(vault: Vault) -> None:
    vault.remember({"text": "heron", "subject": "ann"})
    legal_holds.place_hold(vault.tenant_id, Scope(subject="ann"), "case 17", "key")
    text = shown(vault.opened(vault.made("access"))["index.html"].decode())
    assert "legal hold yes" in text
    assert "can move to a lower tier or be deleted from this day on" not in text
