"""Search without a database: requests, word rarity, and the combination of partial scores into one ranking.

`request` defines the request and the results, `parameters` the policy's weights, `terms` the rarity of words. The store
fetches candidates (`candidate_types`), whose number `prefilter` limits for very large tenants. `signals` computes the
candidates' relevance to the query, `scoring` combines it with strength, recency and importance, and `result_list`
produces the results. `spreading_activation` adds neighbours of the best results, `reranking` applies a reranker's
scores, `correction_order` ranks corrections above the statements that they correct, and `result_explanation` describes
why a result was found. `search_record`, `policy_comparison` and `weight_fitting` rank recorded searches again with
other weights.
"""
