"""Search without a database: requests, word rarity, and the combination of partial scores into one ranking.

`request` defines the request and the results, `ranking` the policy's weights, `terms` the rarity of words. The store
fetches `candidates`, which `pruning` limits for very large tenants. `signals` computes their relevance to the query,
`modes` blends it with strength, recency and importance, and `rank` produces the results. `spread` adds neighbours of
the best results, `reranking` applies a reranker's scores, and `explaining` describes why a result was found.
"""
