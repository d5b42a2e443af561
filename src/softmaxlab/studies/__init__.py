"""Our own studies: questions of neither paper, with thresholds that were written down first (docs/studies)."""
