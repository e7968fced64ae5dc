"""What the product costs, each figure with its baseline in the same run. No part of the wheel, and never a test.

`python -m benchmarks` in the project's folder. Times depend on the machine, so nothing here asserts one: a row says
whether it keeps to its budget, and `docs/performance.md` says what was learnt.
"""
