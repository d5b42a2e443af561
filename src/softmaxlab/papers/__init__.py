"""The artefacts of both papers and our own: one file per figure, claims next to them, one catalogue."""
