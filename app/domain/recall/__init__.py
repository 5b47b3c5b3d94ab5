"""Memories that a conversation brings to mind.

`request` holds its recent messages, `parameters` the policy's part, `context` the text that is put before a model.
Relevance is a product of two logistic regressions: `gate`, of the conversation's `form`, and `worth`, of each memory by
`relevance` (words, closeness, cues), `kin` (word vectors) and `bridges` (flags of its text). `english` reads the lists.

The score of a search compares results of one search, so that something is always best. Relevance here is absolute: it
says whether a memory is worth bringing up at all, and most often none is.
"""
