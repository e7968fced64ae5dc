"""The `temporal` driver: one Temporal workflow per saga that needs driving (DESIGN.md section 7; SEMANTICS.md S12.3).

Only `connection`, `workflow` and `worker` import Temporal's SDK, which is an extra (`saga-mcp[temporal]`).
"""
