"""The page `/docs` works without another site and under the dashboard's Content-Security-Policy."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from fastapi import FastAPI
from starlette.testclient import TestClient

from app.api.http.page_headers import HEADERS
from app.api.reference import openapi
from tests.api.caller import Api

FROM_ELSEWHERE = re.compile(r"""(?:src|href)=["']?(?:https?:)?//|url\(["']?(?:https?:|//|data:)|@import""")


def test_the_page_has_the_dashboards_policy_and_no_script_of_its_own(api: Api) -> None:
    page = api.get("/docs", key=None)
    assert page.status_code == 200
    dashboard = api.get("/ops/log-in", key=None)
    for name, value in HEADERS.items():
        assert page.headers[name] == dashboard.headers[name] == value
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page.text) == []


def test_every_file_that_the_page_names_comes_from_this_service(api: Api) -> None:
    page = api.get("/docs", key=None).text
    assert not FROM_ELSEWHERE.search(page)
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert {"docs/swagger-ui-bundle.js", "docs/docs.js", "docs/swagger-ui.css", "ops/static/icon.svg"} <= set(named)
    for path in named:
        assert api.get(f"/{path}", key=None).status_code == 200, path


def test_the_style_sheet_takes_its_images_from_files(api: Api) -> None:
    answer = api.get("/docs/swagger-ui.css", key=None)
    assert answer.headers["content-type"].startswith("text/css")
    assert not FROM_ELSEWHERE.search(answer.text)
    images = set(re.findall(r"url\(([^)]+)\)", answer.text))
    assert len(images) > 10
    for name in images:
        image = api.get(f"/docs/{name}", key=None)
        assert image.headers["content-type"].startswith("image/"), name
        if name.endswith(".svg"):
            assert ET.fromstring(image.content).tag.endswith("svg")  # noqa: S314 - our own file


def test_the_start_of_the_page_asks_no_validator_and_loads_the_own_description(api: Api) -> None:
    script = api.get("/docs/docs.js", key=None).text
    assert 'url: "openapi.json"' in script
    assert "validatorUrl: null" in script
    assert "http" not in script


def test_another_name_is_no_file(api: Api) -> None:
    for name in ("nothing.js", "__init__.py", "..%2f__init__.py", "introduction.md"):
        assert api.get(f"/docs/{name}", key=None).status_code == 404


def test_the_description_starts_with_an_introduction(api: Api) -> None:
    about = api.get("/openapi.json", key=None).json()["info"]["description"]
    for heading in ("Authentication", "Tenants, subjects and threads", "Storing", "Errors", "Lists", "Names"):
        assert f"## {heading}\n" in about
    for term in ("Idempotency-Key", "Prefer: wait=5", "next_cursor", "X-Request-Id", "`subject`", "`occurred_at`"):
        assert term in about


def test_the_root_leads_to_the_reference(api: Api) -> None:
    answer = api.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "docs")


def test_the_description_is_serialized_once() -> None:
    asked = []

    class Described(FastAPI):
        def openapi(self) -> dict[str, object]:
            asked.append(self)
            return {"openapi": "3.1.0"}

    app = Described(openapi_url=None)
    openapi.serve(app)
    with TestClient(app) as client:
        assert [client.get("/openapi.json").json() for _ in range(3)] == [{"openapi": "3.1.0"}] * 3
    assert len(asked) == 1
