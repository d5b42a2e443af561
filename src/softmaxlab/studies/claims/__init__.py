"""Claims of our studies: each module ends in CLAIMS."""
