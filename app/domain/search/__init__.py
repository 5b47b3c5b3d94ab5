"""Search without a database: what is asked, how rare words are, and how partial scores become one ranking.

`request` is what comes in and goes out, `ranking` the policy's weights, `terms` the rarity of words. The store finds
`candidates`, among very many those that `pruning` says are worth it; `signals` gives each its relevance to the query,
`modes` blends that with strength, recency and importance, and `rank` puts it all together. Then `spread` says what
comes along, `reranking` what a second look changes, and `explaining` why a result was found.
"""
