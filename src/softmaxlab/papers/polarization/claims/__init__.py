"""Claims of the polarization paper and ours about it: each module ends in CLAIMS."""
