"""Notebook and parameters in, executed notebook and PDF out."""
