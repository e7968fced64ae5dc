"""Encryption of values in the log, as the log sees it (SEMANTICS.md S11.4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given
from hypothesis import strategies as st
from tests.log.decisions import intending, opening, succeeding

from saga_mcp.log.sealing import Keyring, LogKeyMissing
from saga_mcp.log.sql import SqlSagaLog

ONE, TWO = bytes(32), bytes([1]) * 32


async def test_a_process_without_the_key_writes_nothing_any_more_once_another_encrypts(path: Path) -> None:
    async with SqlSagaLog.open(path) as plain, SqlSagaLog.open(path, keyring=Keyring([ONE])) as sealing:
        await plain.decide("sg-a", opening())
        await plain.decide("sg-a", intending())
        await sealing.decide("sg-b", opening())
        with pytest.raises(LogKeyMissing, match="is not set") as refused:
            await plain.decide("sg-a", succeeding({"card": "4242"}))
        assert "nothing was stored and nothing was sent" in str(refused.value)
        with pytest.raises(LogKeyMissing):
            await plain.observe("ops", 0.0, 1.0)
        assert (await sealing.load("sg-a")).seq == 2
        await sealing.decide("sg-a", succeeding({"card": "4242"}))


async def test_a_process_with_another_key_first_writes_once_it_has_both(path: Path) -> None:
    async with (
        SqlSagaLog.open(path, keyring=Keyring([ONE])) as old,
        SqlSagaLog.open(path, keyring=Keyring([TWO, ONE])) as both,
    ):
        await old.decide("sg-a", opening())
        await both.decide("sg-b", opening())
        with pytest.raises(LogKeyMissing):
            await old.decide("sg-a", intending())
        await both.decide("sg-a", intending())


@given(st.text(), st.integers(min_value=0), st.binary(), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_opens_in_its_place_and_in_no_other(saga_id: str, seq: int, values: bytes, key: bytes) -> None:
    keyring = Keyring([key])
    sealed = keyring.seal(saga_id, seq, values)
    assert keyring.open(saga_id, seq, sealed) == values
    assert keyring.seal(saga_id, seq, values) != sealed
    assert len(values) < 8 or values not in sealed.box
    for other_saga, other_seq in ((saga_id + "x", seq), (saga_id, seq + 1)):
        with pytest.raises(InvalidTag):
            keyring.open(other_saga, other_seq, sealed)
    changed = sealed._replace(box=sealed.box[:-1] + bytes([sealed.box[-1] ^ 1]))
    with pytest.raises(InvalidTag):
        keyring.open(saga_id, seq, changed)
