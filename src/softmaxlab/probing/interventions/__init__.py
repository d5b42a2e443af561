"""Change a model and measure the cost: heads removed, its sink folded away, eight bits."""
