"""Everything between a host and a raw run."""
