"""Raw runs on disk, and the tables made from them."""
