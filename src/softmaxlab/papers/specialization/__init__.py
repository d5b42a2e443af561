"""Figures and claims of the specialization paper, and our own on its model."""
