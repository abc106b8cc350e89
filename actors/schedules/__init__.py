"""Calls that are due again and again: `declaration` is what people write, `looking` makes one job of each due time."""
