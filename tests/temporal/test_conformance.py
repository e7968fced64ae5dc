"""The rules of rollbacks, as they are tested over the `local` driver, over workers of a real Temporal server.

Not here: what sets the clock by hand, which moves no timer of Temporal's; and an undo that is not available, which a
worker leaves to others first.
"""

from __future__ import annotations

import inspect
import secrets

import pytest
from tests.engine.test_crashes import *  # noqa: F403 - see above
from tests.engine.test_kinds import *  # noqa: F403 - see above
from tests.engine.test_lost_answers import *  # noqa: F403 - see above
from tests.engine.test_undo import *  # noqa: F403 - see above
from tests.temporal.dev_server import DevServer
from tests.world import server

from saga_mcp.app_driver import temporal_driver
from saga_mcp.engine.drivers.temporal.place import TemporalPlace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_NOT_HERE = {"test_an_undo_that_is_not_available_is_a_dead_letter_until_it_is_back"}


@pytest.fixture(autouse=True)
def _over_temporal(temporal: DevServer, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TemporalPlace(address=temporal.address, task_queue=secrets.token_hex(8))
    monkeypatch.setattr(server, "usual_driver", temporal_driver(place, "ledger", works=True))


for _name, _test in [*globals().items()]:
    if _name.startswith("test_") and (_name in _NOT_HERE or "ManualClock" in inspect.getsource(_test)):
        del globals()[_name]
