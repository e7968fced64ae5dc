"""Drivers that bring sagas to rest (DESIGN.md section 7)."""
