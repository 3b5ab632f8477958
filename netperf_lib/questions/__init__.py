"""What one question asks of the table of runs, and the words of its answer."""
