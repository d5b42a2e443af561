"""Figures of our studies: one file each, found by being here."""
