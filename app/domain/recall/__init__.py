"""What a conversation brings to mind.

`request` is its recent messages, `parameters` what the policy says of it, `relevance` a number of its own for each
memory, `context` the text that is put before a model.

The score of a search compares results of one search, so that something is always best. Relevance here is absolute: it
says whether a memory is worth bringing up at all, and most often none is.
"""
