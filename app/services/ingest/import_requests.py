"""Start imports: check the request, store the uploaded file encrypted, and create the job that reads it."""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid4

from app.domain.imports.formats import find_format
from app.domain.imports.generic import check_mapping
from app.domain.imports.items import ImportOptions, Reading, find_zone
from app.domain.privacy.audit_chain import Detail
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.jobs import queue
from app.services.privacy import import_files
from app.services.privacy.import_files import FileWriter
from app.services.security import audit, encryption_keys
from app.settings import settings
from app.store.core import database
from app.store.erasure import requests
from app.store.ingest import imports
from app.store.ingest.imports import Import
from app.store.jobs import jobs
from app.store.tiers import wrapped_keys

KIND: Final = "import"
OPEN_MAX: Final = 10
"""Maximum number of unfinished imports per tenant."""
NO_MASTER_KEY: Final = (
    "uploaded files are stored encrypted, but EBBING_MASTER_KEY isn't set: set it (`ebbing run` creates a key itself)"
)


def begin_upload(tenant_id: UUID, format_name: str, options: ImportOptions) -> FileWriter:
    """Check a request for an import, and return the writer for its file.

    Raises:
        Invalid: The format, the mapping or the time zone doesn't exist, or the format takes no mapping.
        Conflict: No master key is set, or too many imports are unfinished.
        Misconfigured: The master key has changed.
    """
    chosen = find_format(format_name)
    if options.map and not chosen.takes_map:
        raise Invalid(errors=[FieldError("map", f"has no effect on the format {format_name}: leave it out")])
    reading = Reading(options, find_zone(options), 0)
    if format_name != "langgraph":
        check_mapping(reading)
    elif options.map.keys() - {"text"}:
        raise Invalid(errors=[FieldError("map", "may contain only `text` for the format langgraph")])
    if settings().master_key is None:
        raise Conflict(NO_MASTER_KEY)
    with database.tenant(tenant_id) as tx:
        unfinished = len([found for found in imports.list_open(tx, tenant_id) if found.status == "running"])
    if unfinished >= OPEN_MAX:
        raise Conflict(f"{unfinished} imports are unfinished, and a tenant may have {OPEN_MAX}: wait for one to end")
    return FileWriter(tenant_id, options)


def finish_upload(file: FileWriter, format_name: str, requested_by: str, *, dry_run: bool) -> Import:
    """Store the import of an uploaded file, and create its job.

    Raises:
        Invalid: The file is empty.
        Misconfigured: The master key is missing or has changed.
    """
    if not file.size_bytes:
        raise Invalid(errors=[FieldError("body", "is empty: send the file")])
    tenant_id = file.tenant_id
    owners = encryption_keys.load_owner_keys(tenant_id, ())
    owner = encryption_keys.TENANT
    wrapped = encryption_keys.wrap_record(tenant_id, file.import_id, file.key, owner, owners.keys[owner])
    with database.tenant(tenant_id) as tx:
        requests.lock_shared(tx, tenant_id)
        wrapped_keys.add_records(tx, tenant_id, {file.import_id: wrapped})
        fields = (format_name, dry_run, database.now(tx), requested_by, file.size_bytes, file.objects)
        new = Import(file.import_id, uuid4(), *fields)
        imports.add(tx, tenant_id, new)
        jobs.add(tx, new.job_id, tenant_id, KIND, {"import_id": str(new.import_id)}, lone=False)
        details: dict[str, Detail] = {"import": str(new.import_id), "format": format_name, "dry_run": dry_run}
        audit.append(tx, tenant_id, "import_started", requested_by, details=details)
    queue.send_quietly()
    return new


def get(tenant_id: UUID, import_id: UUID) -> Import:
    """Return an import.

    Raises:
        NotFound: This tenant has no such import.
    """
    with database.tenant(tenant_id) as tx:
        return require_found(imports.get(tx, tenant_id, import_id), "import")


list_imports = database.in_tenant(imports.list_imports)
"""Return a page of imports, latest first, after the given request time and id."""


def end_cancelled(tenant_id: UUID, import_id: UUID) -> None:
    """End the import of a cancelled job; what it has stored remains."""
    import_files.end_imports(tenant_id, [import_id], "ended", import_files.CANCELLED)
