"""Check that the model provider answers, without sending any memory."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httpx2

from app.clients.llm import egress, provider_health
from app.clients.llm.provider_health import CONNECTION, Target
from app.clients.llm.resilience import ProviderFailed, Reason
from app.settings import MIB, Settings

TIMEOUT_SECONDS: Final = 3.0
ANSWER_MAX_BYTES: Final = 16 * MIB


def check_connection(config: Settings) -> None:
    """Ask the provider for its list of models, and record whether it answered; no memory is sent.

    An error status below 500 counts as an answer, because some servers don't list their models; 401 means that the
    provider rejects the API key.
    """
    target = Target(CONNECTION, config.provider_address, "")
    try:
        _request_models(config)
    except ProviderFailed as failure:
        provider_health.record(target, failure)
    else:
        provider_health.record(target, None)


def _request_models(config: Settings) -> None:
    url, key = config.provider_url.rstrip("/"), config.openai_api_key
    hosts = config.llm_hosts or frozenset({config.provider_host})
    allowed = egress.Allowed(frozenset(host.lower() for host in hosts), config.llm_private_addresses)
    headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        with (
            egress.client(
                allowed, timeout_seconds=TIMEOUT_SECONDS, answer_max_bytes=ANSWER_MAX_BYTES, connections=1
            ) as http,
            http.stream("GET", f"{url}/models", headers=headers) as response,
        ):
            status = response.status_code
    except egress.HostRefused:
        reason = Reason.HOST_REFUSED
    except egress.AnswerRefused:
        return
    except httpx2.TimeoutException:
        reason = Reason.TIMEOUT
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        reason = Reason.UNREACHABLE
    else:
        if status == HTTPStatus.UNAUTHORIZED:
            raise ProviderFailed(Reason.NOT_AUTHORISED, status=status)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ProviderFailed(Reason.SERVER_ERROR, status=status)
        return
    raise ProviderFailed(reason)
