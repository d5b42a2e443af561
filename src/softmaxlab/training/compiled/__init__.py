"""Compiled loops of the training laboratory."""
