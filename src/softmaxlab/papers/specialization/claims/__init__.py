"""Claims of the specialization paper and ours about it: each module ends in CLAIMS."""
