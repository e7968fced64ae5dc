"""The saga log: its port, the encoding of events, who is alive, and the adapters."""
