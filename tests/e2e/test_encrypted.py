"""With encryption on, no value of a call is in any byte that the product leaves anywhere (SEMANTICS.md S11.4)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import anyio
import pytest
from tests.alerts.receiver import Receiver, receiving
from tests.e2e.product import BOUND_S, Product

VAULT = Path(__file__).with_name("vault.py")
KEY = base64.b64encode(bytes(range(32))).decode()
BOX, WHAT, PIN, BAD_KEY = "box-7731-sesame", "the-crown-of-nobody", "pin-4242-quux", "key-0815-plugh"
SECRETS = (BOX, WHAT, PIN, BAD_KEY)


class Vault(Product):
    """The product before the vault, with values encrypted and alerts sent."""

    def protect(self, receiver: Receiver) -> None:
        self.config.write_text(
            f"""
[saga]
name = "vault"
database = "sqlite:///saga.db"
on_error = "hold"
wipe_values = true
encryption_keys = ["${{env:SAGA_KEY}}"]

[python.vault]
path = '{VAULT}:registry'

[alerts]
webhook = "{receiver.url}"
""",
            encoding="utf-8",
        )
        self._env |= {"VAULT": str(self.folder / "done.jsonl"), "SAGA_KEY": KEY}

    @property
    def done(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "done.jsonl").read_text(encoding="utf-8").splitlines()]

    def left(self) -> dict[str, bytes]:
        """Every file that is there but for the tool's own."""
        files = (file for file in self.folder.rglob("*") if file.is_file() and file.name != "done.jsonl")
        return {str(file.relative_to(self.folder)): file.read_bytes() for file in files}


def found(where: dict[str, bytes]) -> list[tuple[str, str]]:
    """What stands where, as it is or in another common dress."""
    return [
        (name, secret)
        for name, content in where.items()
        for secret in (*SECRETS, KEY)
        for dress in (secret.encode(), secret.encode("utf-16-le"), base64.b64encode(secret.encode())[:-4])
        if dress in content
    ]


@pytest.mark.case(106)
async def test_no_value_of_a_call_is_in_any_byte_beside_a_living_writer_and_after_its_end(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    async with receiving() as receiver:
        vault.protect(receiver)
        async with vault.serve("--log-level", "debug") as agent:
            first = await agent.call("put", box=BOX, what=WHAT, pin=PIN)
            assert first.code == "", first.text
            failed = await agent.call("turn", saga_id=first.saga_id, key=BAD_KEY)
            assert failed.code == "step_failed"
            other = await agent.call("put", box=BOX, what=WHAT, pin=PIN)
            assert other.code == "resource_held"
            living = vault.left()
            assert {"saga.db", "saga.db-wal", "saga.db-shm"} <= living.keys()
            assert found(living) == []
            aborted = await agent.call("saga_abort", saga_id=first.saga_id)
            assert aborted.state == "compensated", aborted.text
            await receiver.until(lambda: ("saga.compensated", first.saga_id) in receiver.told)
            assert found(vault.left()) == []
            await agent.close_stdin()
            assert await agent.exits(within_s=20) == 0
            said = agent.log.encode()
        sent = b"\n".join(b"%r %s" % (request.headers, request.body) for request in receiver.requests)
    assert found({"log": said, "webhook": sent, **vault.left()}) == []
    # The undo was given all of it, exactly.
    assert vault.done == [
        ["put", BOX, WHAT, PIN],
        ["take", BOX, f"receipt for {WHAT}", f"before {BOX}", PIN],
        ["tell", BOX],
    ]


@pytest.mark.case(106)
async def test_without_encryption_the_values_are_in_the_log_until_they_are_wiped(tmp_path: Path) -> None:
    """The scan finds what is there; and what was wiped after the end is in no byte of it either."""
    vault = Vault(tmp_path)
    async with receiving() as receiver:
        vault.protect(receiver)
        config = vault.config.read_text(encoding="utf-8")
        vault.config.write_text("\n".join(line for line in config.splitlines() if "encryption_keys" not in line))
        async with vault.serve() as agent:
            saga = (await agent.call("put", box=BOX, what=WHAT, pin=PIN)).saga_id
            assert {secret for name, secret in found(vault.left()) if name.startswith("saga.db")} == {BOX, WHAT, PIN}
            await agent.call("saga_abort", saga_id=saga)
            await agent.close_stdin()
            assert await agent.exits(within_s=20) == 0
        code, said = await vault.run("prune", "--older-than", "9d", "--yes")
        assert code == 0, said
    assert found(vault.left()) == []


async def test_an_id_of_a_saga_that_was_pruned_is_answered_clearly(product: Product) -> None:
    async with product.serve() as agent:
        saga = (await agent.call("reserve", item="a")).saga_id
        await agent.call("saga_abort", saga_id=saga)
        effects = len(product.world.order)
        with anyio.fail_after(BOUND_S):
            code, said = await product.run("prune", "--older-than", "0s", "--yes")
        assert code == 0, said
        status = await agent.call("saga_status", saga_id=saga)
        assert (status.code, status.is_error) == ("saga_pruned", True)
        assert status.text.startswith(f"Saga {saga} ended (compensated: 1 undone, 0 open")
        called = await agent.call("reserve", item="b", saga_id=saga)
        assert called.code == "saga_pruned"
        assert "Nothing was sent" in called.text
        aborted = await agent.call("saga_abort", saga_id=saga)
        assert aborted.code == "saga_pruned"
        assert len(product.world.order) == effects
