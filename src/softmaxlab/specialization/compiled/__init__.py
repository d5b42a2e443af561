"""Compiled loops of the specialization laboratory."""
