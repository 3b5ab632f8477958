"""What the data support, and what they do not: levels, contrasts, families of contrasts."""
