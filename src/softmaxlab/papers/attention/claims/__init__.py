"""Claims about attention maps: each module ends in CLAIMS."""
