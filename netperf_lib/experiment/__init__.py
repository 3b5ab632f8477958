"""What is declared and scheduled: no I/O but reading a yaml file."""
