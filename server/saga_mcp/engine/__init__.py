"""Runs steps and rollbacks: intent, act, outcome; recovery; the driver port and the drivers behind it."""
