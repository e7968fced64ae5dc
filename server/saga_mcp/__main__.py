"""`python -m saga_mcp` is the command, where its script is not at hand; with `-I` no PYTHONPATH is heard of."""

import sys

from saga_mcp.cli import main

if not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which the command's script does not search either
main()
