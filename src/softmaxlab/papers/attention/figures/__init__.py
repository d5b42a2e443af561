"""Figures about attention maps: one file each, found by being here."""
