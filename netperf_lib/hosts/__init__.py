"""Where hosts come from and how they go: one file a source."""
