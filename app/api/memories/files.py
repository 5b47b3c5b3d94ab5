"""`/v1/files`: run the commands of Anthropic's memory tool on memories, and answer in the wording of that tool."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.http import responses
from app.api.http.auth import Reader, Writer
from app.api.http.request_body import json_body
from app.api.memories.ingest import Ingest
from app.domain.files.answers import Answer
from app.domain.files.commands import (
    CreateCommand,
    DeleteCommand,
    InsertCommand,
    RenameCommand,
    ReplaceCommand,
    ViewCommand,
)
from app.services.files import files

router = APIRouter(prefix="/v1/files", tags=["files"])


@router.post("/view", summary="Show a file or a directory")
def view(caller: Reader, command: Annotated[ViewCommand, Depends(json_body(ViewCommand))]) -> Response:
    """Show a file with line numbers, or a directory two levels deep.

    Each route of this group takes the input of a call of Anthropic's memory tool (`memory_20250818`) and returns its
    result: `content`, the text for the model, and `is_error`. A file is a memory whose `external_id` is the path; its
    tag `explicitly_saved` protects it from decay unless the policy says otherwise.
    """
    return _respond(files.view(caller.tenant_id, command))


@router.post(
    "/create",
    summary="Create a file",
    responses={202: {"description": "The file is accepted and is shown within seconds"}},
)
async def create(
    caller: Writer, command: Annotated[CreateCommand, Depends(json_body(CreateCommand))], request: Request
) -> Response:
    """Create a file; `is_error` is true if it exists. Directories need not exist."""
    memory, answer = await run_in_threadpool(files.check_new, caller.tenant_id, command)
    if memory is None:
        return _respond(answer)
    ingest: Ingest = request.app.state.ingest
    body = msgspec.json.encode([memory])
    _, is_stored = await ingest.store(caller.tenant_id, body, caller.writer, until="stored")
    return _respond(answer, 200 if is_stored else 202)


@router.post("/str_replace", summary="Replace a string in a file")
def str_replace(caller: Writer, command: Annotated[ReplaceCommand, Depends(json_body(ReplaceCommand))]) -> Response:
    """Replace a string that occurs exactly once; the answer shows the lines around the change.

    The former text becomes a memory with the tag `file_version`, which the file supersedes.
    """
    return _respond(files.replace_string(caller.tenant_id, command, caller.writer))


@router.post("/insert", summary="Insert lines into a file")
def insert(caller: Writer, command: Annotated[InsertCommand, Depends(json_body(InsertCommand))]) -> Response:
    """Insert lines after the line with the number `insert_line`; 0 inserts them at the beginning.

    The former text becomes a memory with the tag `file_version`, which the file supersedes.
    """
    return _respond(files.insert_lines(caller.tenant_id, command, caller.writer))


@router.post("/delete", summary="Delete a file or a directory")
def delete(caller: Writer, command: Annotated[DeleteCommand, Depends(json_body(DeleteCommand))]) -> Response:
    """Delete a file, or a directory with up to 1,000 files: hidden at once, erased after the grace period.

    409 if a file is under a legal hold; then nothing is deleted.
    """
    return _respond(files.delete(caller.tenant_id, command, caller.key_id))


@router.post("/rename", summary="Rename a file or a directory")
def rename(caller: Writer, command: Annotated[RenameCommand, Depends(json_body(RenameCommand))]) -> Response:
    """Rename a file, or a directory with up to 1,000 files; 409 if a file is under a legal hold."""
    return _respond(files.rename(caller.tenant_id, command, caller.writer))


def _respond(answer: Answer, status: int = 200) -> Response:
    return responses.answer(answer._asdict(), status)
