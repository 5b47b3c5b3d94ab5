"""Answer errors in FastAPI's own form, `{"detail": …}`, which clients of other services expect."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from app.api.http import responses
from app.api.http.problem_responses import as_ours, respond
from app.api.http.request_ids import get_ids
from app.errors import EbbingError, FieldError


class DetailRoute(APIRoute):
    """A route whose errors have the body `{"detail": …}`: a text, or a list of faults with `loc`, `msg` and `type`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, wrapped."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                faults = [
                    {"loc": list(fault["loc"]), "msg": fault["msg"], "type": fault["type"]} for fault in error.errors()
                ]
                return responses.answer({"detail": faults}, 422)
            except Exception as error:  # noqa: BLE001 - every failure gets a response
                return _refused(as_ours(error), request)

        return answer


def _refused(error: EbbingError, request: Request) -> Response:
    logged = respond(error, get_ids(request.scope), f"{request.method} {request.scope['route'].path}")
    faults = [_fault(field) for field in error.errors]
    response = responses.answer({"detail": faults or error.detail or error.title}, error.status)
    for name in ("retry-after", "www-authenticate"):
        if name in logged.headers:
            response.headers[name] = logged.headers[name]
    return response


def _fault(field: FieldError) -> dict[str, Any]:
    return {"loc": ["body", *field.field.split(".")], "msg": str(field), "type": "value_error"}
