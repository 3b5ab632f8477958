"""Raw runs on disk, and the tables that are made of them."""
