"""Recall: select the memories that are relevant to an ongoing conversation.

`request` holds the request and its recent messages, `parameters` the policy settings, `context` the text block for the
prompt. Relevance is the product of two logistic regressions: `gate` scores the conversation by its `form`, and `worth`
scores each memory by `relevance` (shared words, vector closeness, cues), `kin` (word vectors) and `bridges` (bit flags
of its text). `english` reads the word lists.

A search score only compares the results of one search, so every search has a best result. Recall relevance is absolute:
it says whether a memory is worth bringing up at all, and most messages need none.
"""
