"""Recall: select the memories that are relevant to an ongoing conversation.

`request` holds the request and its recent messages, `parameters` the policy settings, `context` the text block for the
prompt. Relevance is the product of two logistic regressions. `gate` scores the conversation by its
`conversation_features`. `worth` scores each memory by `relevance` (shared words, vector closeness, cues),
`word_kinship` (word vectors) and `bridges` (bit flags of the memory's text), and `knowledge` lowers the worth of mere
questions. `focus` selects the messages that count, `threshold` sets the minimum relevance, and `english` reads the word
lists.

A search score only compares the results of one search, so every search has a best result. Recall relevance is absolute:
for most messages, no memory reaches the minimum relevance.
"""
