"""Chapter 4: editing and deleting.

Edits and deletes take effect immediately: once the response has arrived, the next search reflects the change. That
includes neighbours in a conversation, which are indexed with the words around them.
"""

from __future__ import annotations

from tests.fundamentals.client import Client, refusal
from tests.waiting import until


def words_of(ebbing: Client, query: str) -> dict[str, float]:
    """Return the share of each found memory's score that comes from the query's words, by id."""
    found = ebbing.search(query, explain=True)
    return {result.id: result.explain["words"] for result in found if result.explain and result.explain["words"] > 0}


def test_an_edit_is_true_for_the_next_search(ebbing: Client) -> None:
    [memory_id] = ebbing.remember("The party is in the garden.")

    edited = ebbing.edit(memory_id, text="The party is in the cellar.")

    assert edited.text == ebbing.get(memory_id).text == "The party is in the cellar."
    assert list(words_of(ebbing, "cellar")) == [memory_id]
    assert words_of(ebbing, "garden") == {}


def test_the_meaning_of_an_edited_memory_follows_a_moment_later(ebbing: Client) -> None:
    [memory_id] = ebbing.remember("We baked bread.")

    assert ebbing.edit(memory_id, text="The car broke down.").status == "indexed"  # already findable by its words
    until(lambda: ebbing.get(memory_id).status == "embedded", "the edited memory is embedded")


def test_an_edit_changes_the_fields_given_and_null_empties_one(ebbing: Client) -> None:
    [memory_id] = ebbing.remember({"text": "Ben plays chess.", "subject": "ben", "tags": ["games"]})

    edited = ebbing.edit(memory_id, subject=None, tags=["hobbies"])

    assert (edited.text, edited.subject, edited.tags) == ("Ben plays chess.", None, ["hobbies"])


def test_an_edit_changes_by_which_words_the_neighbours_are_found(ebbing: Client) -> None:
    question, answer = ebbing.remember(
        {"text": "Have you ever been to Lisbon?", "thread": "holidays"}, {"text": "Yes, twice.", "thread": "holidays"}
    )
    assert words_of(ebbing, "Lisbon").keys() == {question, answer}

    ebbing.edit(question, text="Have you ever been to Oslo?")

    assert words_of(ebbing, "Oslo").keys() == {question, answer}
    assert words_of(ebbing, "Lisbon") == {}


def test_a_deleted_memory_is_gone_from_every_read(ebbing: Client) -> None:
    gone, stays = ebbing.remember("The code is 1234.", "The door is green.")

    deleted = ebbing.delete(gone)
    assert deleted.status_code == 202

    assert refusal(ebbing.http.get(f"/v1/memories/{gone}")).status == 404
    assert [memory.id for memory in ebbing.page().memories] == [stays]
    assert [result.id for result in ebbing.search("the code of the door")] == [stays]
    assert ebbing.delete(gone).json() == deleted.json()  # a repeated deletion changes nothing


def test_a_deleted_memory_takes_its_words_out_of_its_neighbours(ebbing: Client) -> None:
    question, answer = ebbing.remember(
        {"text": "Have you ever been to Lisbon?", "thread": "holidays"}, {"text": "Yes, twice.", "thread": "holidays"}
    )

    ebbing.delete(question)

    assert words_of(ebbing, "Lisbon") == {}
    assert list(words_of(ebbing, "twice")) == [answer]


def test_an_external_id_is_free_again_once_its_memory_is_deleted(ebbing: Client) -> None:
    [gone] = ebbing.remember({"text": "Old.", "external_id": "note"})
    ebbing.delete(gone)

    [fresh] = ebbing.remember({"text": "New.", "external_id": "note"})

    assert ebbing.get(fresh).id == fresh
    assert ebbing.get(fresh).text == "New."
