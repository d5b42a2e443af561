"""Figures of the specialization paper and ours about it: one file each, found by being here."""
