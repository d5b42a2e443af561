"""The report: static pages with every figure and verdict."""
