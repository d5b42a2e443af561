"""Artefacts about the attention maps themselves."""
