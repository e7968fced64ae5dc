"""Servers and workers of the `temporal` driver in this process, over LEDGER and a real log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from tests.temporal.dev_server import DevServer
from tests.world.server import Server, served

from saga_mcp.app_driver import temporal_driver
from saga_mcp.engine.drivers.temporal.place import workflow_id
from saga_mcp.engine.workshop import DriverFactory


@dataclass(frozen=True)
class Realm:
    """A realm of its own, whose sagas a Temporal server drives."""

    temporal: DevServer
    name: str
    database: Path

    @asynccontextmanager
    async def serving(self, **changed: Any) -> AsyncGenerator[Server]:  # noqa: ANN401 - see `served`
        """Serve LEDGER, and leave all driving to workers."""
        driver = temporal_driver(self.temporal.place, self.name)
        async with served(self.database, driver=driver, realm=self.name, **changed) as server:
            yield server

    @asynccontextmanager
    async def working(
        self,
        *,
        around_driver: Callable[[DriverFactory], DriverFactory] = lambda driver: driver,
        **changed: Any,  # noqa: ANN401 - see `served`
    ) -> AsyncGenerator[Server]:
        """Be a worker."""
        driver = around_driver(temporal_driver(self.temporal.place, self.name, works=True))
        async with served(self.database, driver=driver, realm=self.name, **changed) as worker:
            yield worker

    async def client(self) -> Client:
        return await Client.connect(self.temporal.address)

    async def workflow(self, saga_id: str) -> WorkflowHandle[Any, Any]:
        return (await self.client()).get_workflow_handle(workflow_id(self.name, saga_id))

    async def runs(self, saga_id: str = "") -> int:
        """How many runs of workflows there were, of the realm or of one saga."""
        begin = workflow_id(self.name, saga_id)
        found = [each async for each in (await self.client()).list_workflows(f"WorkflowId STARTS_WITH '{begin}'")]
        return len(found)
