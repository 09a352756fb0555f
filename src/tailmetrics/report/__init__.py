"""What is made of results: comparisons, tables, figures; never imported by the package root."""
