"""Everything that an agent or a person asks of the engine, each with the saga it is asked of: for `test_leavers`.

Asked is `here`; `there` is the same server, or one of another machine, which has done the newest steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import anyio
from tests.world.reading import World
from tests.world.server import ME, Server

from saga_mcp.domain.approvals import approve, reject
from saga_mcp.domain.attention import items
from saga_mcp.domain.draft import Driving
from saga_mcp.domain.events import Event
from saga_mcp.domain.pausing import Pause
from saga_mcp.domain.person_decisions import exempt, resolve_absent, resolve_undone, retry
from saga_mcp.domain.reverting import RevertOrder
from saga_mcp.domain.state import Saga
from saga_mcp.domain.values import Phase
from saga_mcp.engine.port import Answer, Caller

Asked = Coroutine[Any, Any, object]
CHAT = Caller(conversation="chat")
FAR = Caller(id="ada", remote=True)
ASKING = "measure"
"""The tool whose calls a person has to allow."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "charge": {"cents": 5},
    "wire": {"cents": 7},
    "post": {"to": "bob"},
    "book": {"item": "b"},
    "send_mail": {"to": "bob"},
    "notify": {"to": "bob"},
    "measure": {"what": "big"},
}


LAST = 3
"""Number of the step after those of every scene: of the first tool that a scene has besides, or of a call."""


@dataclass(frozen=True)
class Scene:
    """Where something is asked."""

    there: Server
    here: Server
    world: World
    nth: int
    """Tells the scenes of one test apart."""

    def next(self, tool: str, *modes: str) -> None:
        """Say how the next calls of a tool go, and all that follow as the last one."""
        self.world.plan(**{tool: ["ok"] * len(self.world.sent(tool)) + list(modes)})

    async def begun(self, *tools: str, mark: str = "", **arguments: str) -> str:
        """A saga with a step of `here`, perhaps a save-point, a step of `there`, and of `tools`, which `there` has."""
        saga_id = await self.here.begin()
        await self.here.call("hold", saga_id, item=f"here-{self.nth}")
        if mark:
            await self.here.engine.savepoint(saga_id, mark)
        await self.there.call("reserve", saga_id, item=f"there-{self.nth}")
        for tool in tools:
            await self.there.call(tool, saga_id, **ARGUMENTS[tool], **arguments)
        return saga_id

    async def aborted(self, saga_id: str) -> None:
        """Aborted, and nobody has waited for what follows."""
        async with anyio.create_task_group() as asking:
            asking.start_soon(self.there.abort, saga_id)
            await self.here.until(saga_id, lambda saga: saga.phase is not Phase.ACTIVE)
            asking.cancel_scope.cancel()

    async def waiting(self, *tools: str, **arguments: str) -> str:
        """Aborted as far as it goes without a person."""
        saga_id = await self.begun(*tools, **arguments)
        await self.aborted(saga_id)
        await self.here.until(saga_id, lambda saga: items(saga) != ())
        return saga_id

    def call(self, tool: str, saga_id: str, caller: Caller = ME, key: str = "", **arguments: Any) -> Asked:  # noqa: ANN401 - JSON
        given = {**ARGUMENTS.get(tool, {}), **arguments}
        return self.here.engine.call(tool, given, saga_id=saga_id or None, step_key=key, caller=caller)

    def new(self, tool: str, caller: Caller) -> Asked:
        """A call that opens a saga, which no earlier scene has made."""
        return self.call(tool, "", caller, item=f"first-{self.nth}")

    def says(self, saga_id: str, verb: Callable[..., tuple[Event, ...]]) -> Asked:
        """A person says something about the first step of `tools`."""

        def decision(saga: Saga, driving: Driving) -> tuple[Event, ...]:
            if verb is approve:
                return approve(saga, LAST, by="ada", note="", now=0.0)
            return verb(saga, LAST, by="ada", note="", driving=driving)

        return self.here.engine.decide_item(saga_id, decision)


@dataclass(frozen=True)
class Entry:
    """Something that is asked."""

    name: str
    before: Callable[[Scene], Awaitable[str]] | None
    """Makes the saga; None: what is asked opens one."""
    ask: Callable[[Scene, str], Asked]
    once: str = ""
    """A tool that has done its work once in that saga, however often the same is asked."""


async def _planned(scene: Scene, tool: str, *modes: str) -> str:
    saga_id = await scene.begun()
    scene.next(tool, *modes)
    return saga_id


async def _dead_letter(scene: Scene) -> str:
    scene.next("refund", "give_up")
    saga_id = await scene.waiting("charge")
    scene.next("refund", "ok")
    return saga_id


async def _paused(scene: Scene) -> str:
    """Aborted while the undo of its newest step is paused."""
    saga_id = await scene.begun()
    await scene.here.log.pause("ledger", Pause(tool="ledger.release", by="ada"))
    await scene.aborted(saga_id)
    return saga_id


async def _kept(scene: Scene) -> str:
    saga_id = await scene.begun()
    await scene.here.commit(saga_id)
    return saga_id


async def _undoing(scene: Scene) -> str:
    saga_id = await scene.begun()
    await scene.aborted(saga_id)
    return saga_id


async def _after_the_pivot(scene: Scene) -> str:
    saga_id = await scene.begun("send_mail")
    scene.next("notify", "err_before", "ok")
    return saga_id


async def _relayed(scene: Scene, saga_id: str, answer: Answer) -> object:
    """A call whose client asks its person, who answers."""

    async def ask(_saga: Saga, _number: int) -> Answer:
        return answer

    return await scene.call(ASKING, saga_id, Caller(ask=ask))


async def _probe(scene: Scene, saga_id: str) -> object:
    probing = scene.here.engine.probing
    asked = await probing.ask(await scene.here.engine.saga(saga_id), LAST)
    return await scene.here.engine.decide_item(saga_id, probing.settling(LAST, asked))


YES, NO = Answer(allowed=True, by="ada"), Answer(allowed=False, by="ada")

ENTRIES = [
    Entry("call", Scene.begun, lambda on, saga: on.call("reserve", saga, item="new"), once="reserve"),
    Entry("call-thread", Scene.begun, lambda on, saga: on.call("hold", saga, item="new"), once="hold"),
    Entry("call-by-key", Scene.begun, lambda on, saga: on.call("wire", saga, key="k"), once="wire"),
    Entry("call-in-chat", None, lambda on, _: on.new("reserve", CHAT), once="reserve"),
    Entry("call-from-afar", None, lambda on, _: on.new("reserve", FAR), once="reserve"),
    Entry("call-without-effect", Scene.begun, lambda on, saga: on.call("wire", saga, mode="err_before")),
    Entry("call-in-doubt", Scene.begun, lambda on, saga: on.call("wire", saga, mode="err_after")),
    Entry("call-probed", Scene.begun, lambda on, saga: on.call("charge", saga, mode="err_after")),
    Entry(
        "call-retried",
        lambda on: _planned(on, "book", "err_before", "ok"),
        lambda on, saga: on.call("book", saga),
        once="book",
    ),
    Entry("call-that-asks", Scene.begun, lambda on, saga: on.call(ASKING, saga)),
    Entry("call-allowed-by-client", Scene.begun, lambda on, saga: _relayed(on, saga, YES), once="measure"),
    Entry("call-forbidden-by-client", Scene.begun, lambda on, saga: _relayed(on, saga, NO)),
    Entry("pivot", Scene.begun, lambda on, saga: on.call("send_mail", saga), once="send_mail"),
    Entry("retriable", _after_the_pivot, lambda on, saga: on.call("notify", saga), once="notify"),
    Entry("read", Scene.begun, lambda on, saga: on.call("balance", saga)),
    Entry("begin", None, lambda on, _: on.here.engine.begin(ME, key=f"key-{on.nth}")),
    Entry("commit", Scene.begun, lambda on, saga: on.here.engine.commit(saga, by="agent")),
    Entry("savepoint", Scene.begun, lambda on, saga: on.here.engine.savepoint(saga, "mark")),
    Entry("abort", Scene.begun, lambda on, saga: on.here.engine.abort(saga, cause="agent")),
    Entry("abort-joined", _undoing, lambda on, saga: on.here.engine.abort(saga, cause="agent")),
    Entry(
        "abort-to-savepoint",
        lambda on: on.begun(mark="m"),
        lambda on, saga: on.here.engine.abort(saga, cause="agent", to_savepoint="m"),
    ),
    Entry("revert", _kept, lambda on, saga: on.here.engine.revert(saga, RevertOrder(by="ada"))),
    Entry("approve", lambda on: on.begun(ASKING), lambda on, saga: on.says(saga, approve), once="measure"),
    Entry("reject", lambda on: on.begun(ASKING), lambda on, saga: on.says(saga, reject)),
    Entry("undone", lambda on: on.waiting("post"), lambda on, saga: on.says(saga, resolve_undone)),
    Entry("exempt", lambda on: on.waiting("post"), lambda on, saga: on.says(saga, exempt)),
    Entry("retry", _dead_letter, lambda on, saga: on.says(saga, retry)),
    Entry(
        "absent",
        lambda on: on.waiting("wire", mode="fail_before"),
        lambda on, saga: on.says(saga, resolve_absent),
    ),
    Entry(
        "landed",
        lambda on: on.waiting("wire", mode="err_after"),
        lambda on, saga: on.here.engine.resolve_landed(saga, LAST, result="w", known=True, by="ada", note=""),
    ),
    Entry("probe", lambda on: on.begun("charge", mode="err_after"), _probe),
    Entry("resume", _paused, lambda on, _: on.here.log.resume("ledger", "ledger.release")),
]
