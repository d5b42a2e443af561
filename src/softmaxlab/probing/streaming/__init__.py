"""Statistics of attention while a model runs: tiles of queries, sums over them, means over sequences."""
