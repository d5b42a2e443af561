"""Figures of the polarization paper and ours about it: one file each, found by being here."""
