"""What a change of a model costs: its loss, heads removed, its sink folded, eight bits."""
