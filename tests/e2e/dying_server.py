"""The real server, which kills itself with SIGKILL right after its n-th COMMIT: `DIE_AFTER_COMMIT=n`.

`COMMITS_FILE` gets a byte for each commit, so that a run that lives tells how many there were.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from saga_mcp.cli import main
from saga_mcp.log.sql import batch

if TYPE_CHECKING:
    from saga_mcp.log.sql.batch import Batches, Written

_AT = int(os.environ.get("DIE_AFTER_COMMIT", "0"))
_FILE = Path(os.environ["COMMITS_FILE"])
_commit = batch.Batches._commit  # pyright: ignore[reportPrivateUsage]  # the hook is the point


def _commit_and_die(self: Batches, commit: Callable[[], None], written: Written) -> None:
    _commit(self, commit, written)
    if written.mark is None:
        return
    with _FILE.open("ab") as file:
        file.write(b".")
    if _FILE.stat().st_size == _AT:
        os.kill(os.getpid(), signal.SIGKILL)


batch.Batches._commit = _commit_and_die  # type: ignore[method-assign]  # see above

if __name__ == "__main__":
    main()
