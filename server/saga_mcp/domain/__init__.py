"""The saga state machine and the decisions on it: pure, no I/O, clock or randomness."""
