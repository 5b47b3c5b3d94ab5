"""Run the enrichment stages on stored memories: index, embed, score and rate them, and scan their texts."""
