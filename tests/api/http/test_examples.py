"""Examples of the API's description: every operation has them, they fit its schemas, and they show what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from app.api.reference.openapi import FIRST_CALLS, GROUPS, START, bodies_by_route
from app.api.reference.shapes import load_examples
from app.domain.ingest import bodies
from app.domain.recall.context import build_context
from app.domain.recall.request import Recalled
from app.domain.text import tokens
from tests.api.caller import Api, standing_routes
from tests.api.http.route_table import OPEN, TABLE
from tests.api.http.test_routes import check_each, described, key_with, path_of

JSON = "application/json"
Operation = dict[str, Any]


def operations(api: Api) -> Iterator[tuple[str, Operation]]:
    for path, methods in described(api)["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def request_examples(content: dict[str, Any]) -> list[Any]:
    """Return the examples of a body in one media type."""
    single = [content["example"]] if "example" in content else []
    return single + [one["value"] for one in content.get("examples", {}).values()]


def faults(api: Api, schema: dict[str, Any], value: Any) -> list[str]:
    """Return why a value doesn't fit a schema."""
    whole = {"allOf": [schema], "components": described(api)["components"]}
    found = jsonschema.Draft202012Validator(whole).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def undescribed(api: Api, schema: dict[str, Any], value: Any, path: str = "$") -> list[str]:
    """Return the fields of a value that its schema doesn't name, except in objects without fixed names."""
    for alternative in schema.get("anyOf", ()):
        if alternative != {"type": "null"} and value is not None:
            return undescribed(api, alternative, value, path)
    if "$ref" in schema:
        named = described(api)["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return undescribed(api, named, value, path)
    found = []
    if isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            if name in schema["properties"]:
                found += undescribed(api, schema["properties"][name], item, f"{path}.{name}")
            elif not schema.get("additionalProperties"):
                found.append(f"{path}.{name} isn't described")
    if isinstance(value, list) and "items" in schema:
        found += [fault for item in value for fault in undescribed(api, schema["items"], item, f"{path}[]")]
    return found


def test_every_operation_has_examples_and_no_other() -> None:
    assert load_examples().operations.keys() == {f"{method} {path}" for method, path in TABLE}


FILES = ("application/zip", "application/x-ndjson")


def test_every_body_and_every_response_has_an_example(api: Api) -> None:
    for name, operation in operations(api):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert request_examples(content), name
        for status, response in operation["responses"].items():
            for media_type, content in response.get("content", {}).items():
                assert "example" in content or media_type in FILES, f"{name} {status}"
            assert "content" in response or status == "204", f"{name} {status}"


def test_the_examples_fit_their_schemas(api: Api) -> None:
    wrong = []
    for name, operation in operations(api):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for example in request_examples(content):
                wrong += [f"{name}: {fault}" for fault in faults(api, content["schema"], example)]
        for status, response in operation["responses"].items():
            for content in response.get("content", {}).values():
                if "example" in content and "schema" in content:
                    found = faults(api, content["schema"], content["example"])
                    found += undescribed(api, content["schema"], content["example"])
                    wrong += [f"{name} {status}: {fault}" for fault in found]
    assert not wrong, "\n".join(wrong)


def test_the_service_reads_every_example_of_a_body(api: Api) -> None:
    for (path, method), body in bodies_by_route(standing_routes()).items():
        for example in request_examples(described(api)["paths"][path][method]["requestBody"]["content"][JSON]):
            msgspec.convert(example, body.shape)
    for example in example_of(api, "POST /v1/memories"):
        assert bodies.decode(msgspec.json.encode(example), "json", None)


@pytest.mark.slow
def test_every_response_has_the_fields_of_its_description(api: Api) -> None:
    def check(method: str, path: str) -> None:
        scope, given, status = TABLE[method, path]
        key = None if scope == OPEN else key_with(api, scope)
        answer = api.request(method, path_of(api, path), key=key, **given)
        responses = described(api)["paths"][path][method.lower()]["responses"]
        content = responses.get(str(status), responses["default"]).get("content", {})
        if JSON in content:
            schema = content[JSON]["schema"]
            found = [*faults(api, schema, answer.json()), *undescribed(api, schema, answer.json())]
            assert not found, found

    check_each(api, TABLE, check)


def test_the_first_group_has_the_five_calls_that_an_application_needs(api: Api) -> None:
    tagged = [name for name, operation in operations(api) if START in operation["tags"]]
    assert sorted(tagged) == sorted(FIRST_CALLS)
    assert [group["name"] for group in described(api)["tags"]] == list(GROUPS)
    assert next(iter(GROUPS)) == START
    assert {tag for _, operation in operations(api) for tag in operation["tags"]} == GROUPS.keys()
    assert all(group["description"].endswith(".") for group in described(api)["tags"])


def example_of(api: Api, name: str) -> list[Any]:
    method, _, path = name.partition(" ")
    operation = described(api)["paths"][path][method.lower()]
    return request_examples(operation["requestBody"]["content"][JSON])


def test_the_examples_of_the_first_calls_work_in_their_order(api: Api) -> None:
    ids = [
        memory_id
        for body in example_of(api, "POST /v1/memories")
        for memory_id in api.post("/v1/memories", json=body).raise_for_status().json()["ids"]
    ]
    api.service.work()
    [search] = example_of(api, "POST /v1/search")
    found = api.post("/v1/search", json=search).raise_for_status().json()["results"]
    assert found[0]["id"] == ids[0]
    [recall] = example_of(api, "POST /v1/recall")
    recalled = api.post("/v1/recall", json=recall).raise_for_status().json()
    assert ids[0] in recalled["ids"]
    assert found[0]["text"] in recalled["text"]
    assert recalled["context"] == recalled["text"]
    [observation] = example_of(api, "POST /v1/observations")
    assert api.post("/v1/observations", json=observation | {"ids": recalled["ids"]}).status_code == 202
    api.service.work()
    assert api.get(f"/v1/memories/{ids[0]}").json()["access_count"] > 0
    assert api.delete(f"/v1/memories/{ids[0]}").status_code == 202
    assert api.get(f"/v1/memories/{ids[0]}").status_code == 404


def test_the_text_of_the_recall_example_is_what_recall_makes_of_its_memories() -> None:
    example = load_examples().schemas["RecallAnswer"].example
    memories = msgspec.convert(example["memories"], list[Recalled])
    text, _ = build_context(memories, [memory.highlight for memory in memories], example["tokens"], "UTC")
    assert (example["text"], example["context"], example["tokens"]) == (text, text, tokens.count(text))


OLD_NAMES = {
    ("RecallAnswer", "context"): "text",
    ("Erasure", "erasure_id"): "id",
    ("PrivacyRequest", "request_id"): "id",
    ("Tenant", "tenant_id"): "id",
    ("Key", "key_id"): "id",
    ("Hold", "memory_ids"): "ids",
}


@pytest.mark.parametrize(("place", "new"), OLD_NAMES.items(), ids=str)
def test_an_old_name_is_marked_and_stands_beside_the_new_one(api: Api, place: tuple[str, str], new: str) -> None:
    schema, old = place
    fields = described(api)["components"]["schemas"][schema]["properties"]
    assert fields[old]["deprecated"] is True
    assert f"`{new}`" in fields[old]["description"]
    assert new in fields
