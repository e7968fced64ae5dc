"""`kill -9` between a capture and its intent, and between an outcome and what is read after it (S6.6, S6.7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.product import Client, Product, ServerDied

STORE = Path(__file__).with_name("store.py")
BEFORE = b"\xff old \x00"


class Store:
    """The product over a store of files."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "files"
        self.root.mkdir()
        self.product = Product(folder)
        self.product.configure(tools=f"\n[python.store]\npath = '{STORE}:registry'\n")

    def env(self, die_at_read: int = 0) -> dict[str, str]:
        return {"STORE": str(self.root), "DIE_AT_READ": str(die_at_read)}

    def content(self, name: str) -> bytes | None:
        path = self.root / name
        return path.read_bytes() if path.exists() else None


async def killed_at(store: Store, read: int) -> str:
    """Two writes, the second to what the first left; the saga that a server leaves which dies at a look."""
    async with store.product.serve(env=store.env(read)) as agent:
        saga_id = await agent.begin()
        with pytest.raises(ServerDied):
            await _write_twice(agent, saga_id)
    return saga_id


async def _write_twice(agent: Client, saga_id: str) -> None:
    for text in ("one", "two"):
        await agent.call("write", name="a", text=text, saga_id=saga_id)


@pytest.mark.slow
@pytest.mark.parametrize(("read", "left"), [(1, BEFORE), (3, b"one")], ids=["first call", "second call"])
async def test_a_kill_between_a_capture_and_its_intent_has_sent_nothing(tmp_path: Path, read: int, left: bytes) -> None:
    store = Store(tmp_path)
    (store.root / "a").write_bytes(BEFORE)
    saga_id = await killed_at(store, read)
    assert store.content("a") == left
    async with store.product.serve(env=store.env()) as agent:
        await agent.call("saga_abort", saga_id=saga_id)
        await agent.at_rest(saga_id)
        code, shown = await store.product.run("show", saga_id)
        assert (code, "needs_attention" in shown) == (0, False), shown
    assert store.content("a") == BEFORE


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True], ids=["as it was left", "edited by a person"])
async def test_a_kill_between_an_outcome_and_the_look_after_it_asks_a_person_before_anything_is_overwritten(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edited: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    store = Store(tmp_path)
    (store.root / "a").write_bytes(BEFORE)
    saga_id = await killed_at(store, 2)
    if edited:
        (store.root / "a").write_text("a person's own")
    there = store.content("a")
    monkeypatch.setenv("STORE", str(store.root))
    async with store.product.serve(env=store.env()) as agent:
        await agent.call("saga_abort", saga_id=saga_id)
        await agent.at_rest(saga_id)
        assert store.content("a") == there
        verb = "--keep" if edited else "--overwrite"
        code, said = await store.product.run("resolve", f"{saga_id}.1", verb, "--note", "looked", "--yes")
        assert code == 0, said
        await agent.at_rest(saga_id)
    assert store.content("a") == (there if edited else BEFORE)
