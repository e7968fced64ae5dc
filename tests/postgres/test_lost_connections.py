"""A log on a server whose connections end in the middle of anything: nothing is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.log.decisions import committing, intending, opening, succeeding
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import PostgresServer, sql
from tests.world.server import eventually

from saga_mcp.domain.errors import LogUnavailable
from saga_mcp.domain.pausing import Pause
from saga_mcp.log.place import ServerPlace
from saga_mcp.log.port import AppendUnsettled, Claim
from saga_mcp.log.sealing import Keyring
from saga_mcp.log.sql import SqlSagaLog
from saga_mcp.log.sql import log as log_module
from saga_mcp.log.sql.opened import open_owned
from saga_mcp.log.sql.postgres import connecting
from saga_mcp.log.sql.postgres import database as module
from saga_mcp.log.sql.postgres import session as session_module
from saga_mcp.log.sql.postgres.database import PostgresDatabase


@asynccontextmanager
async def opened(place: ServerPlace, *, busy_budget_s: float = 10.0) -> AsyncGenerator[SqlSagaLog]:
    database = PostgresDatabase(place)
    try:
        async with SqlSagaLog.over(database, busy_budget_s=busy_budget_s) as log:
            yield log
    finally:
        await database.session.aclose()


END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def test_sessions_that_the_server_ends_are_made_anew(server_place: ServerPlace) -> None:
    async with opened(server_place) as log:
        await log.decide("sg-a", opening())
        for seq in range(1, 6):
            assert (await log.load("sg-a")).seq == seq
            sql(server_place.url, END_OTHERS)
            assert (await log.decide("sg-a", intending())).before.seq == seq


class CutAt:
    """Cuts all connections when the first client sends some words."""

    def __init__(self, proxy: Proxy, words: bytes, *, before: bool) -> None:
        self._proxy = proxy
        self._words = words
        self._before = before
        self.happened = 0
        proxy.on_send = self

    def __call__(self, data: bytes) -> None:
        if self._words not in data or self.happened:
            return
        self.happened += 1
        if self._before:
            self._proxy.cut()
        else:
            self._proxy.swallows_answers = True
            asyncio.get_running_loop().call_later(0.1, self._end)

    def _end(self) -> None:
        self._proxy.cut()
        self._proxy.swallows_answers = False


@pytest.mark.case(48)
@pytest.mark.parametrize("before", [True, False], ids=["before the server has it", "after it has answered"])
@pytest.mark.parametrize(
    "words", [b"BEGIN ISOLATION LEVEL SERIALIZABLE", b"UPDATE saga ", b"INSERT INTO saga_event", b"COMMIT"]
)
async def test_a_connection_that_ends_at_any_statement_leaves_one_event(
    postgres: PostgresServer, server_place: ServerPlace, words: bytes, *, before: bool
) -> None:
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place) as log:
        await log.decide("sg-a", opening())
        await log.decide("sg-a", intending())
        cut = CutAt(proxy, words, before=before)
        decided = await log.decide("sg-a", succeeding())
        assert (decided.before.seq, decided.saga.seq) == (2, 3)
        if words in {b"BEGIN ISOLATION LEVEL SERIALIZABLE", b"COMMIT"}:  # what is prepared already is not said again
            assert cut.happened
        assert (await log.decide("sg-a", intending())).before.seq == 3
    assert (
        sql(server_place.url, "SELECT seq, count(*) FROM saga_event GROUP BY seq ORDER BY seq") == "1|1\n2|1\n3|1\n4|1"
    )


async def test_a_commit_of_unknown_outcome_is_asked_after_once_the_server_can_be_reached(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place, busy_budget_s=0.3) as log:
        await log.decide("sg-a", opening())

        def lose(data: bytes) -> None:
            if b"COMMIT" in data and not proxy.refuses:
                proxy.refuses = proxy.swallows_answers = True
                asyncio.get_running_loop().call_later(0.1, proxy.cut)

        proxy.on_send = lose
        with pytest.raises(AppendUnsettled) as unsettled:
            await log.decide("sg-a", intending())
        proxy.on_send, proxy.refuses, proxy.swallows_answers = None, False, False
        assert await log.stored(unsettled.value.append)
        assert (await log.load("sg-a")).seq == 2


def _losing_a_commit(proxy: Proxy, words: bytes) -> None:
    """Let the next transaction with these words in it take place, and the answer to its COMMIT get lost."""
    writes = False

    def lose(data: bytes) -> None:
        nonlocal writes
        writes = writes or words in data
        if writes and b"COMMIT" in data:
            proxy.on_send = None
            proxy.swallows_answers = True
            asyncio.get_running_loop().call_later(0.2, end)

    def end() -> None:
        proxy.cut()
        proxy.swallows_answers = False

    proxy.on_send = lose


async def test_what_is_done_beside_the_decisions_and_got_no_answer_is_reported_as_done(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    async with (
        opened(server_place) as direct,
        proxied(server_place, postgres.port) as (proxy, place),
        opened(place) as log,
    ):
        await direct.decide("sg-a", opening())
        await direct.decide("sg-a", committing)
        await log.pause("ops", Pause(tool="t.put", by="ada", note="", at=1.0))
        _losing_a_commit(proxy, b"DELETE FROM saga_pause")
        assert await log.resume("ops", "t.put")
        assert await direct.paused("ops") == {}
        assert not await log.resume("ops", "t.put")
        _losing_a_commit(proxy, b"INSERT INTO saga_tombstone")
        assert await log.prune("sg-a", alerts_too=True) == ""
        assert proxy.on_send is None
        assert await log.prune("sg-a", alerts_too=True) == "it is gone already"


async def test_what_is_done_beside_the_decisions_is_not_said_to_have_failed_where_nobody_knows(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place, busy_budget_s=0.3) as log:
        await log.paused("ops")

        def lose(data: bytes) -> None:
            if b"COMMIT" in data and not proxy.refuses:
                proxy.refuses = proxy.swallows_answers = True
                asyncio.get_running_loop().call_later(0.1, proxy.cut)

        await log.resume("ops", "t.put")  # the writer has its connection
        proxy.on_send = lose
        with pytest.raises(LogUnavailable, match="it is not known whether that was stored") as unknown:
            await log.pause("ops", Pause(tool="t.put", by="ada", note="", at=1.0))
        assert "nothing was stored" not in str(unknown.value)
        assert sql(server_place.url, "SELECT tool FROM saga_pause") == "t.put"


async def test_what_is_said_not_to_be_stored_does_not_get_there_later(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    """The server may still be at a COMMIT when its client asks, over another connection, what became of it."""
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place) as log:
        await log.decide("sg-a", opening())
        held = await _holding_up_commits(server_place)
        try:

            def lose(data: bytes) -> None:
                if b"COMMIT" in data:
                    proxy.on_send = None
                    asyncio.get_running_loop().call_later(0.1, proxy.cut)
                    asyncio.get_running_loop().call_later(0.6, held.set)

            proxy.on_send = lose
            assert (await log.decide("sg-a", intending())).saga.seq == 2
        finally:
            held.set()
    assert sql(server_place.url, "SELECT count(*) FROM saga_event") == "2"


async def _holding_up_commits(place: ServerPlace) -> asyncio.Event:
    """Let commits of events wait in the server, by a trigger at their end, until the event is set."""
    sql(
        place.url,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NULL; END'; "
        "CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON saga_event DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    let_go, is_held = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        raw = await connecting.Server(place.url).connect_raw()
        await raw.execute("SELECT pg_advisory_lock(77)")
        is_held.set()
        await let_go.wait()
        await raw.close()

    _kept.add(asyncio.create_task(hold()))
    await is_held.wait()
    return let_go


_kept: set[asyncio.Task[None]] = set()


async def test_a_server_that_cannot_be_reached_is_named_and_used_again_when_it_can(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place, busy_budget_s=0.5) as log:
        await log.decide("sg-a", opening())
        proxy.refuses = True
        proxy.cut()
        with pytest.raises(
            LogUnavailable, match=r"does not answer \(.*tried for [01] s\); nothing was stored"
        ) as error:
            await log.decide("sg-a", intending())
        assert "no-secret" not in str(error.value)
        proxy.refuses = False
        assert (await log.decide("sg-a", intending())).before.seq == 1


async def test_a_server_that_says_nothing_any_more_is_given_up(
    postgres: PostgresServer, server_place: ServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WRITES_WITHIN_S", 0.5)
    monkeypatch.setattr(connecting, "CONNECT_WITHIN_S", 0.5)
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place) as log:
        await log.decide("sg-a", opening())
        proxy.swallows = True
        asyncio.get_running_loop().call_later(1.0, lambda: setattr(proxy, "swallows", False))
        assert (await log.decide("sg-a", intending())).before.seq == 1


@pytest.mark.parametrize("answers", [1, 2, 4, 6, 8])
async def test_a_server_that_lets_us_in_and_says_nothing_more_is_given_up(
    postgres: PostgresServer, server_place: ServerPlace, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    """As a pooler whose pool is used up does. The login is the first of the nine answers that it takes to be ready."""
    monkeypatch.setattr(connecting, "CONNECT_WITHIN_S", 0.2)
    monkeypatch.setattr(module, "CONNECT_WITHIN_S", 0.2)
    monkeypatch.setattr(session_module, "ANSWERS_WITHIN_S", 0.2)
    monkeypatch.setattr(log_module, "SETUP_WAIT_S", 0.5)
    async with proxied(server_place, postgres.port) as (proxy, place), opened(place, busy_budget_s=0.5) as log:
        await log.decide("sg-a", opening())
        proxy.answers = answers
        proxy.cut()
        with anyio.fail_after(10):
            with pytest.raises(LogUnavailable, match="does not answer"):
                await log.load("sg-a")
            with pytest.raises(LogUnavailable, match="does not answer"):
                await log.decide("sg-a", intending())
            proxy.answers = None
            assert (await log.decide("sg-a", intending())).saga.seq == 2
            assert (await log.load("sg-a")).seq == 2


@pytest.mark.parametrize("answers", [1, 3, 6])
async def test_a_session_that_hears_nothing_more_is_made_anew(
    postgres: PostgresServer, server_place: ServerPlace, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    monkeypatch.setattr(connecting, "CONNECT_WITHIN_S", 0.2)
    monkeypatch.setattr(session_module, "ANSWERS_WITHIN_S", 0.2)
    monkeypatch.setattr(session_module, "PROBE_EVERY_S", 0.1)
    async with (
        proxied(server_place, postgres.port) as (proxy, place),
        open_owned(place, Keyring()) as (log, owners),
    ):
        await log.paused("ledger")
        proxy.answers = answers
        proxy.cut()
        await eventually(lambda: owners.standing is Claim.AWAITED)
        proxy.answers = None
        await eventually(lambda: owners.standing is Claim.HELD)


async def test_looks_for_changes_while_the_server_is_away_leave_nothing_behind(
    postgres: PostgresServer, server_place: ServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SETUP_WAIT_S", 0.0)
    monkeypatch.setattr(module, "_LISTENS_WITHIN_S", 0.0)
    async with proxied(server_place, postgres.port) as (proxy, place):
        proxy.refuses = True
        database = PostgresDatabase(place)
        try:
            async with SqlSagaLog.over(database) as log:
                for _ in range(5):
                    with pytest.raises(LogUnavailable):
                        await log.wait_for_change(0)
                proxy.refuses = False
                assert await log.wait_for_change(0) >= 1
                assert len(database.session._heard) == 1  # pyright: ignore[reportPrivateUsage]  # each costs every notice
        finally:
            await database.session.aclose()


async def test_a_caller_that_gives_up_leaves_no_transaction_open(server_place: ServerPlace) -> None:
    async with opened(server_place) as log:
        await log.decide("sg-a", opening())
        for _ in range(50):
            with anyio.move_on_after(random.uniform(0, 0.003)):  # noqa: S311 - a test
                await log.decide("sg-a", intending())
        await log.decide("sg-a", intending())
        await eventually(lambda: sql(server_place.url, IDLE_IN_TRANSACTION) == "0")
        saga = await log.load("sg-a")
        assert [step.number for step in saga.steps] == [*range(1, saga.seq)]


IDLE_IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
)


def _cut(proxy: Proxy) -> None:
    proxy.cut()


def _half_close(proxy: Proxy) -> None:
    proxy.half_close()


def _refuse(proxy: Proxy) -> None:
    proxy.refuses = True
    proxy.cut()
    asyncio.get_running_loop().call_later(0.1, lambda: setattr(proxy, "refuses", False))


def _delay(proxy: Proxy) -> None:
    proxy.delay_s = 0.03
    asyncio.get_running_loop().call_later(0.1, lambda: setattr(proxy, "delay_s", 0.0))


@pytest.mark.case(49)
async def test_whatever_the_network_does_each_event_that_was_answered_is_there_once(
    postgres: PostgresServer, server_place: ServerPlace
) -> None:
    """Two processes, eight sagas that both append to, and a network that cuts, delays, refuses and half-closes."""
    chance = random.Random(49)  # noqa: S311 - a test
    answered: Counter[str] = Counter()
    troubles: list[Callable[[Proxy], None]] = [_cut, _half_close, _refuse, _delay]
    async with (
        proxied(server_place, postgres.port) as (one, first),
        proxied(server_place, postgres.port) as (two, second),
        opened(first) as log,
        opened(second) as other,
    ):
        for number in range(8):
            await log.decide(f"sg-{number}", opening())

        async def work(through: SqlSagaLog, saga_id: str) -> None:
            for _ in range(10):
                decided = await through.decide(saga_id, intending())
                answered[saga_id] += decided.saga.seq - decided.before.seq
                await anyio.sleep(chance.uniform(0, 0.05))

        async def trouble() -> None:
            while True:
                await anyio.sleep(chance.uniform(0.05, 0.15))
                chance.choice(troubles)(chance.choice([one, two]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trouble)
            async with anyio.create_task_group() as workers:
                for number in range(8):
                    workers.start_soon(work, log, f"sg-{number}")
                    workers.start_soon(work, other, f"sg-{number}")
            tasks.cancel_scope.cancel()
    assert set(answered.values()) == {20}
    rows = sql(
        server_place.url,
        "SELECT saga_id, max(seq), count(*), count(DISTINCT seq) FROM saga_event GROUP BY 1 ORDER BY 1",
    )
    assert rows.splitlines() == [f"sg-{number}|21|21|21" for number in range(8)]
