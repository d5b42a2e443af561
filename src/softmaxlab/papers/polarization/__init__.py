"""Figures and claims of the polarization paper, and our own about the same model."""
