"""`/v1/files`: the commands of Anthropic's memory tool, with the texts of its reference implementation."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.domain.tiers.protection import NEVER_FORGET_TAGS
from app.services.tenants import tenants
from app.store.files.file_memories import PROTECTED_TAG
from tests.api.caller import Api, fields
from tests.api.memories.test_ingest import worker

NOTES = "/memories/notes.md"


@pytest.fixture
def tool(api: Api) -> Iterator[Api]:
    """The API with a worker in a thread."""
    with worker(api.service):
        yield api


def run(api: Api, command: str, **given: Any) -> str:
    """Run a command as the tool's host does, and return the text for the model; a failed command begins with `! `."""
    answer = api.post(f"/v1/files/{command}", json={"command": command} | given)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown.keys() == {"content", "is_error"}
    return ("! " if shown["is_error"] else "") + str(shown["content"])


def test_a_model_writes_and_reads_its_files(tool: Api) -> None:
    head = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
    assert run(tool, "view", path="/memories") == f"{head}0B\t/memories"
    assert run(tool, "create", path=NOTES, file_text="Tea\nBread\n") == f"File created successfully at: {NOTES}"
    assert run(tool, "create", path=NOTES, file_text="other") == f"! File {NOTES} already exists"
    content = f"Here's the content of {NOTES} with line numbers:\n"
    assert run(tool, "view", path=NOTES) == f"{content}     1\tTea\n     2\tBread\n     3\t"
    assert run(tool, "view", path=NOTES, view_range=[2, -1]) == f"{content}     2\tBread\n     3\t"
    assert run(tool, "view", path=NOTES, view_range=[1, 1]) == f"{content}     1\tTea"
    assert run(tool, "str_replace", path=NOTES, old_str="Bread", new_str="Rye bread") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tTea\n     2\tRye bread\n     3\t"
    )
    assert run(tool, "insert", path=NOTES, insert_line=1, insert_text="Milk\n") == f"The file {NOTES} has been edited."
    assert run(tool, "view", path=NOTES) == f"{content}     1\tTea\n     2\tMilk\n     3\tRye bread\n     4\t"
    assert run(tool, "rename", old_path=NOTES, new_path="/memories/list/food.md") == (
        f"Successfully renamed {NOTES} to /memories/list/food.md"
    )
    assert run(tool, "view", path="/memories") == (
        f"{head}19B\t/memories\n19B\t/memories/list/\n19B\t/memories/list/food.md"
    )
    assert run(tool, "delete", path="/memories/list") == "Successfully deleted /memories/list"
    assert run(tool, "view", path="/memories") == f"{head}0B\t/memories"


def test_failed_commands_have_the_known_texts(tool: Api) -> None:
    run(tool, "create", path=NOTES, file_text="a b\nb\nc")
    missing = "/memories/none.md"
    hint = f"! The path {missing} does not exist. Please provide a valid path."
    assert run(tool, "view", path=missing) == hint
    assert run(tool, "str_replace", path=missing, old_str="a", new_str="b") == hint
    assert run(tool, "insert", path=missing, insert_line=0, insert_text="a") == hint
    assert run(tool, "delete", path=missing) == f"! The path {missing} does not exist"
    assert run(tool, "rename", old_path=missing, new_path="/memories/x") == f"! The path {missing} does not exist"
    assert run(tool, "str_replace", path=NOTES, old_str="tea", new_str="b") == (
        f"! No replacement was performed, old_str `tea` did not appear verbatim in {NOTES}."
    )
    assert run(tool, "str_replace", path=NOTES, old_str="b", new_str="x") == (
        "! No replacement was performed. Multiple occurrences of old_str `b` in lines: 1, 2. Please ensure it is unique"
    )
    assert run(tool, "insert", path=NOTES, insert_line=4, insert_text="x") == (
        "! Invalid `insert_line` parameter: 4. It should be within the range [0, 3]."
    )
    assert run(tool, "delete", path="/memories/") == "! Cannot delete the /memories directory itself"
    assert run(tool, "rename", old_path="/memories", new_path="/memories/x") == (
        "! Cannot rename the /memories directory itself"
    )
    run(tool, "create", path="/memories/d/e", file_text="e")
    assert run(tool, "rename", old_path=NOTES, new_path="/memories/d") == "! The destination /memories/d already exists"
    assert run(tool, "create", path="/memories/d", file_text="x") == "! File /memories/d already exists"
    assert run(tool, "insert", path="/memories/d", insert_line=0, insert_text="x") == (
        "! The path /memories/d is not a file."
    )
    for path in (f"{NOTES}/x", f"{NOTES}/x/y"):
        assert run(tool, "create", path=path, file_text="x") == f"! The path {NOTES} is not a directory."
    assert run(tool, "rename", old_path="/memories/d", new_path="/memories/d/f") == (
        "! The path /memories/d is not a directory."
    )


def test_directories_are_shown_two_levels_deep_without_hidden_items(tool: Api) -> None:
    for path, size in (("b", 1), ("a/x", 1024), ("a/b/c", 1536), (".git/config", 5), ("a.md", 2), ("a/.cache", 3)):
        run(tool, "create", path=f"/memories/{path}", file_text="x" * size)
    head = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items:"
    assert run(tool, "view", path="/memories").split("\n") == [
        head.format("/memories"),
        "2.5K\t/memories",
        "2.5K\t/memories/a/",
        "1.5K\t/memories/a/b/",
        "1K\t/memories/a/x",
        "2B\t/memories/a.md",
        "1B\t/memories/b",
    ]
    assert run(tool, "view", path="/memories/a/").split("\n") == [
        head.format("/memories/a"),
        "2.5K\t/memories/a",
        "1.5K\t/memories/a/b/",
        "1.5K\t/memories/a/b/c",
        "1K\t/memories/a/x",
    ]
    run(tool, "rename", old_path="/memories/a", new_path="/memories/z/a")
    assert run(tool, "view", path="/memories/z/a/b/c").endswith("x" * 1536)
    assert run(tool, "view", path="/memories/a.md").endswith("\txx"), "a name that begins like the directory's"


@pytest.mark.parametrize(
    "path",
    [
        *("/memories/../etc/passwd", "/memories/..", "/memories/./a", "/etc/passwd", "memories/a", "", "/", "~/a"),
        *("/memoriesque", "/memories2/a", "/Memories/a", "/memories/%2e%2e/etc", "/memories/%252e%252e/etc"),
        *("/memories/a%2Fb", "/memories/..%2f", "/memories\\..\\etc", "/memories/a\0b", "/memories/a\nb"),
        *("/memories/\uff0e\uff0e/etc", "/memories/\u2025/etc", "/memories/a\uff0fb", "/memories/%\uff12e%\uff12e/etc"),
        "/memories/ .. /a",
        *("//etc/passwd", "/memories/" + "x" * 503, "/memories/\x7f"),
    ],
)
def test_paths_that_leave_the_root_or_are_ambiguous_are_refused(api: Api, path: str) -> None:
    calls: dict[str, dict[str, Any]] = {
        "view": {"path": path},
        "create": {"path": path, "file_text": "x"},
        "str_replace": {"path": path, "old_str": "x", "new_str": "y"},
        "insert": {"path": path, "insert_line": 0, "insert_text": "x"},
        "delete": {"path": path},
        "rename": {"old_path": path, "new_path": "/memories/a"},
    }
    for command, given in calls.items():
        answer = api.post(f"/v1/files/{command}", json=given)
        assert (answer.status_code, fields(answer)) == (422, [next(iter(given))]), command
    answer = api.post("/v1/files/rename", json={"old_path": "/memories/a", "new_path": path})
    assert (answer.status_code, fields(answer)) == (422, ["new_path"])
    assert api.service.one("SELECT count(*) FROM memories") == 0


def test_texts_that_cannot_be_stored_are_refused(tool: Api) -> None:
    for text in ("", " \n", "a\0b", "x" * 32_769):
        answer = tool.post("/v1/files/create", json={"path": NOTES, "file_text": text})
        assert (answer.status_code, fields(answer)) == (422, ["file_text"]), text[:9]
    answer = tool.post("/v1/files/create", json={"path": NOTES, "file_text": "ü" * 16_385})
    assert (answer.status_code, fields(answer)) == (422, ["file_text"])
    [error] = answer.json()["errors"]
    assert (error["value"], error["limit"]) == (32_770, 32_768)
    run(tool, "create", path=NOTES, file_text="x" * 32_000)
    answer = tool.post("/v1/files/insert", json={"path": NOTES, "insert_line": 1, "insert_text": "y" * 800})
    assert (answer.status_code, fields(answer)) == (422, ["insert_text"])
    answer = tool.post("/v1/files/str_replace", json={"path": NOTES, "old_str": "x" * 32_000, "new_str": " "})
    assert (answer.status_code, fields(answer)) == (422, ["new_str"])
    assert run(tool, "view", path=NOTES).endswith("x" * 32_000), "nothing has changed"
    assert fields(tool.post("/v1/files/view", json={"path": NOTES, "command": "delete"})) == ["command"]


def test_files_are_memories_that_decay_leaves_alone(tool: Api) -> None:
    text = "Bo prefers rye bread\r\n  and tea\n"
    run(tool, "create", path=NOTES, file_text=text)
    [memory] = tool.get("/v1/memories").json()["memories"]
    assert (memory["external_id"], memory["text"], memory["tags"]) == (NOTES, text, [PROTECTED_TAG])
    assert PROTECTED_TAG in NEVER_FORGET_TAGS
    why = tool.get(f"/v1/memories/{memory['id']}/why", params={"as_of": "2126-01-01T00:00:00Z"}).json()
    assert (why["wanted"], why["rule"]) == ("active", "never_forget")
    run(tool, "rename", old_path=NOTES, new_path="/memories/bo.md")
    run(tool, "str_replace", path="/memories/bo.md", old_str="tea", new_str="coffee")
    edited = tool.get(f"/v1/memories/{memory['id']}").json()
    assert (edited["external_id"], edited["text"]) == ("/memories/bo.md", text.replace("tea", "coffee"))
    found = tool.post("/v1/search", json={"query": "who drinks coffee?"}).json()["results"]
    assert [result["id"] for result in found] == [memory["id"]]
    run(tool, "delete", path="/memories/bo.md")
    [asked] = [
        entry for entry in tool.get("/v1/privacy/audit").json()["entries"] if entry["action"] == "erasure_requested"
    ]
    assert asked["actor"] == tool.tenant.key_id
    tool.post(f"/v1/privacy/erasures/{asked['details']['erasure']}/cancel")
    assert "coffee" in run(tool, "view", path="/memories/bo.md")


def test_a_hold_protects_files_and_their_directory(tool: Api) -> None:
    for name in ("held", "free"):
        run(tool, "create", path=f"/memories/d/{name}", file_text="text")
    [memory] = tool.get("/v1/memories", params={"external_id": "/memories/d/held"}).json()["memories"]
    tool.post("/v1/privacy/holds", json={"reason": "a claim", "ids": [memory["id"]]})
    for command, given in (
        ("str_replace", {"path": "/memories/d/held", "old_str": "text", "new_str": "other"}),
        ("insert", {"path": "/memories/d/held", "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": "/memories/d/held"}),
        ("delete", {"path": "/memories/d"}),
        ("rename", {"old_path": "/memories/d", "new_path": "/memories/e"}),
    ):
        assert tool.post(f"/v1/files/{command}", json=given).status_code == 409, command
    shown = run(tool, "view", path="/memories/d")
    assert [line.partition("\t")[2] for line in shown.split("\n")[2:]] == ["/memories/d/free", "/memories/d/held"]
    assert run(tool, "delete", path="/memories/d/free") == "Successfully deleted /memories/d/free"


def test_concurrent_edits_are_all_applied(tool: Api) -> None:
    run(tool, "create", path=NOTES, file_text="first\n")
    said: list[str] = []

    def add(name: str) -> None:
        for _ in range(20):
            answer = tool.post("/v1/files/insert", json={"path": NOTES, "insert_line": 1, "insert_text": name})
            if answer.status_code == 200:
                said.append(name)
                return
            assert answer.status_code == 409, answer.text

    threads = [threading.Thread(target=add, args=(f"line {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [memory] = tool.get("/v1/memories", params={"external_id": NOTES}).json()["memories"]
    assert sorted(memory["text"].split("\n")) == sorted(["", "first", *said])
    assert len(said) == 4


def test_another_tenant_sees_none_of_the_files(tool: Api) -> None:
    run(tool, "create", path=NOTES, file_text="mine")
    other = tool.service.tenant()
    answer = tool.post("/v1/files/view", key=other.key, json={"path": NOTES})
    assert answer.json()["is_error"]
    for command in ("view", "delete"):
        key = tenants.issue_key(tool.tenant.tenant_id, "k", ["maintain"])
        assert tool.post(f"/v1/files/{command}", key=key, json={"path": NOTES}).status_code == 403
    assert tool.post("/v1/files/create", key=other.key, json={"path": NOTES, "file_text": "theirs"}).json() == {
        "content": f"File created successfully at: {NOTES}",
        "is_error": False,
    }
    assert run(tool, "view", path=NOTES).endswith("\tmine")


def versions_of(api: Api, memory_id: str) -> list[dict[str, Any]]:
    """Return the former texts of a file, newest first."""
    listed = api.get("/v1/memories", params={"metadata": json.dumps({"version_of": memory_id})}).json()["memories"]
    assert all(memory["tags"] == ["file_version"] for memory in listed)
    return list(listed)


def test_an_edit_keeps_the_former_text_as_a_version(tool: Api) -> None:
    run(tool, "create", path=NOTES, file_text="green tea\n")
    [file] = tool.get("/v1/memories").json()["memories"]
    run(tool, "str_replace", path=NOTES, old_str="green", new_str="black")
    run(tool, "insert", path=NOTES, insert_line=0, insert_text="Drinks")
    run(tool, "str_replace", path=NOTES, old_str="tea", new_str="tea")
    versions = versions_of(tool, file["id"])
    assert [memory["text"] for memory in versions] == ["black tea\n", "green tea\n"], "no version of an equal text"
    assert [memory["external_id"] for memory in versions] == [None, None]
    stored = tool.get(f"/v1/memories/{file['id']}").json()
    assert (stored["text"], stored["supersedes"]) == (
        "Drinks\nblack tea\n",
        [memory["id"] for memory in reversed(versions)],
    )
    why = tool.get(f"/v1/memories/{file['id']}/why").json()
    assert [one["status"] for one in why["supersedes"]] == ["active", "active"]
    assert versions[1]["created_at"] == file["created_at"], "the time at which the text was written"
    found = tool.post("/v1/search", json={"query": "green tea", "reinforce": False}).json()["results"]
    assert [result["id"] for result in found] == [file["id"]]
    shown = run(tool, "view", path="/memories")
    assert shown.split("\n")[1:] == ["17B\t/memories", "17B\t/memories/notes.md"]
    old = tool.get(f"/v1/memories/{versions[1]['id']}/why", params={"as_of": "2126-01-01T00:00:00Z"}).json()
    assert old["wanted"] != "active", "versions fade"
    superseding = [
        entry for entry in tool.get("/v1/privacy/audit").json()["entries"] if entry["action"] == "memories_superseded"
    ]
    assert [(entry["actor"], entry["items"]) for entry in superseding] == [(tool.tenant.key_id, 1)] * 2
    stats = tool.get("/v1/stats").json()["memories"]
    assert stats["active"] == 3


@pytest.mark.parametrize("way", ["command", "directory", "memory", "ids"])
def test_versions_are_deleted_with_their_file_and_come_back_with_it(tool: Api, way: str) -> None:
    path = "/memories/d/notes.md"
    for name in (path, "/memories/d/other.md"):
        run(tool, "create", path=name, file_text="green tea\n")
        run(tool, "str_replace", path=name, old_str="green", new_str="black")
    run(tool, "rename", old_path="/memories/d/other.md", new_path="/memories/d/kept.md")
    files_by_path = {memory["external_id"]: memory["id"] for memory in tool.get("/v1/memories").json()["memories"]}
    file = files_by_path[path]
    if way == "command":
        run(tool, "delete", path=path)
    elif way == "directory":
        run(tool, "delete", path="/memories/d")
    elif way == "memory":
        assert tool.delete(f"/v1/memories/{file}").json()["id"] == file
    else:
        asked = tool.post("/v1/privacy/erasures", json={"ids": [file]}, key=privacy_key(tool))
        assert asked.status_code == 202, asked.text
    assert versions_of(tool, file) == []
    left = sorted(memory["text"] for memory in tool.get("/v1/memories").json()["memories"])
    assert left == ([] if way == "directory" else ["black tea\n", "green tea\n"])
    found = tool.post("/v1/search", json={"query": "green", "reinforce": False}).json()["results"]
    assert file not in {result["id"] for result in found}
    [asked_for] = [
        entry for entry in tool.get("/v1/privacy/audit").json()["entries"] if entry["action"] == "erasure_requested"
    ]
    assert tool.post(f"/v1/privacy/erasures/{asked_for['details']['erasure']}/cancel").status_code == 200
    assert [memory["text"] for memory in versions_of(tool, file)] == ["green tea\n"]
    assert run(tool, "view", path=path).endswith("     1\tblack tea\n     2\t")
    stored = tool.get(f"/v1/memories/{file}").json()
    assert stored["supersedes"] == [versions_of(tool, file)[0]["id"]]


def privacy_key(api: Api) -> str:
    return tenants.issue_key(api.tenant.tenant_id, "privacy", ["privacy"])
