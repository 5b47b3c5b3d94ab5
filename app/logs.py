"""Logging: one JSON object per line on standard error, with ids and numbers, never memory text or secrets."""

from __future__ import annotations

import logging
import sys
import warnings

import structlog

from app.errors import stored_name
from app.settings import settings


def configure(process: str) -> None:
    """Set up logging for this process. Call once, before work starts.

    Args:
        process: Process name in every line, such as `api` or `worker ingest`.
    """
    level = logging.getLevelNamesMapping()[settings().log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _name_process(process),
    ]
    structlog.configure(
        processors=[*shared, _only_type_of_errors, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard module; format their records the same way.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _only_type_of_errors,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.captureWarnings(capture=True)
    # Celery warns of pickled messages if the user is root; the service accepts only JSON.
    warnings.filterwarnings("ignore", message=r"You're running the worker with superuser privileges")
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    # The library of Celery's pool doesn't let its records propagate; without a handler, they would be printed as text.
    pool = logging.getLogger("multiprocessing")
    pool.handlers, pool.propagate = [handler], False


def _name_process(process: str) -> structlog.typing.Processor:
    def add(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["process"] = process
        return event

    return add


def _only_type_of_errors(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace an exception by its type and location, because its message may quote a row."""
    raised = event.pop("exc_info", None)
    error = raised[1] if isinstance(raised, tuple) else raised
    if isinstance(error, BaseException):
        event["error"] = stored_name(error)
        trace, place = error.__traceback__, ""
        while trace is not None:
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        event["at"] = place
    return event
