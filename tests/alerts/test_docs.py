"""The page about alerts shows what is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.alerts.receiver import Receiver
from tests.world.reading import World
from tests.world.server import served

from saga_mcp.domain.alerts import AlertType
from saga_mcp.edge.webhook import Webhook

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")


async def test_the_example_is_what_a_receiver_gets(
    world: World, database: Path, receiver: Receiver, webhook: Webhook
) -> None:
    async with served(database, sender=webhook, realm="ops") as server:
        saga_id = (await server.call("post", to="bob@example.org")).saga_id
        await server.abort(saga_id)
        sent, _ = await receiver.until_told(2)
    (written,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    example = json.loads(written)
    assert {**example, "time": ""} == {**_named(sent, saga_id, example["data"]["saga"]), "time": ""}
    assert len(example["time"]) == len(sent["time"])
    assert world.standing


def _named(event: dict[str, object], name: str, other: str) -> dict[str, object]:
    renamed: dict[str, object] = json.loads(json.dumps(event).replace(name, other))
    return renamed


def test_every_type_of_alert_is_explained() -> None:
    assert set(re.findall(r"^\| `saga-mcp\.([\w.]+)`", PAGE, flags=re.MULTILINE)) == {each.value for each in AlertType}
