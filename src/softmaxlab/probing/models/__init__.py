"""Models and texts: where they come from, and what is refused."""
