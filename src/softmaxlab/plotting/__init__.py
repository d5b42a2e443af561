"""Pictures: theme, journal sizes, and the default picture of every result."""
