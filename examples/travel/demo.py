"""Five short stories about one travel desk, told by an agent that speaks to the real server over real stdio.

A trip that is kept; one whose payment fails; one that the agent gives up; one during which the server is killed; and
one booked with the server started the way Claude Desktop starts it. After each, the outside world is compared with what
the story claims: the exit code is 1 if it differs. Everything happens in a temporary folder.
"""
# Talking to people is this program's job (T201); a script is in no package (INP001).
# ruff: noqa: T201, INP001

import json
import os
import signal
import sqlite3
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE.parents[1] / "claude_config.example.json"
COMMAND = Path(sys.executable).with_name("saga-mcp")
CONFIG = """\
[saga]
name = "demo"
database = "sqlite:///saga.db"

[python.travel]
path = {travel}
"""
TELL_PID = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
"""Writes its process id and becomes the server, so that the demo knows whom to kill."""

ADA, BABBAGE = "4000-0000-0000-0077", "4000-0000-0000-0341"
SEATS, ROOMS = 18, 7
WIDTH = 96
LONGEST_WAIT_S = 20
LONGEST_DEMO_S = 120
T = TypeVar("T")


class NotAsClaimed(Exception):
    """The world, or a reply, is not what the story says."""


class World(NamedTuple):
    """What somebody who does not know saga-mcp would find booked and paid."""

    flights: tuple[str, ...] = ()
    hotels: tuple[str, ...] = ()
    paid_cents: int = 0
    refunds: int = 0


@dataclass
class Demo:
    """The folder with the world, the saga log and the config; and the clock of the story."""

    folder: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def config(self) -> Path:
        """The config of the server."""
        return self.folder / "saga.toml"

    @property
    def log(self) -> Path:
        """What the server says of itself, on standard error."""
        return self.folder / "server.log"

    def world(self) -> World:
        """Look at the world with nothing but SQLite."""
        with closing(sqlite3.connect(self.folder / "world.db")) as db:
            flights = [row[0] for row in db.execute("SELECT flight FROM booking ORDER BY rowid")]
            hotels = [row[0] for row in db.execute("SELECT hotel FROM reservation ORDER BY rowid")]
            paid = db.execute("SELECT coalesce(sum(cents), 0) FROM charge WHERE NOT refunded").fetchone()[0]
            refunds = db.execute("SELECT count(*) FROM charge WHERE refunded").fetchone()[0]
            seats = db.execute("SELECT sum(seats) FROM flight").fetchone()[0]
            rooms = db.execute("SELECT sum(rooms) FROM hotel").fetchone()[0]
        if (seats + len(flights), rooms + len(hotels)) != (SEATS, ROOMS):
            raise NotAsClaimed(f"{seats} seats and {rooms} rooms are free, but {flights} and {hotels} are booked")
        return World(tuple(flights), tuple(hotels), paid, refunds)

    def claim(self, what: str, expected: World) -> None:
        """Compare the world with the story."""
        found = self.world()
        if found != expected:
            raise NotAsClaimed(f"{what}: expected {expected}, found {found}")
        self.say("world", f"{what}: {describe(found)}")

    def say(self, who: str, what: str) -> None:
        """Print one line of the timeline."""
        first, *more = textwrap.wrap(what, WIDTH) or [""]
        print(f"{time.monotonic() - self.began:6.2f} s  {who:<6}  {first}", flush=True)
        for line in more:
            print(f"{'':18}{line}", flush=True)

    @asynccontextmanager
    async def server(self, *, slow_s: float = 0, pid_file: Path | None = None) -> AsyncGenerator["Agent"]:
        """Start the server and connect an agent to it.

        Args:
            slow_s: how long a booking sleeps after its effect.
            pid_file: where the server's process id is to be written.
        """
        run = [str(COMMAND), "serve", "--config", str(self.config)]
        if pid_file:
            run = [sys.executable, "-c", TELL_PID, str(pid_file), *run]
        env = {"TRAVEL_WORLD": str(self.folder / "world.db"), "TRAVEL_SLOW_S": str(slow_s)}
        async with self.connected(StdioServerParameters(command=run[0], args=run[1:], env=env)) as agent:
            yield agent

    @asynccontextmanager
    async def connected(self, server: StdioServerParameters, *, like_desktop: bool = False) -> AsyncGenerator["Agent"]:
        """Run a server, its log in a file so that the story stays readable, and connect an agent to it."""
        mode = "legacy" if like_desktop else "auto"  # Claude Desktop still shakes hands
        with self.log.open("a", encoding="utf-8") as log:
            async with Client(stdio_client(server, log), mode=mode, read_timeout_seconds=LONGEST_WAIT_S) as client:
                yield Agent(self, client)


@dataclass
class Agent:
    """Does what a model would do: calls tools, and passes the saga's id on."""

    demo: Demo
    client: Client
    saga_id: str = ""

    async def begin(self, purpose: str) -> None:
        """Open a saga for one task."""
        reply = await self.client.call_tool("saga_begin", {"purpose": purpose})
        self.saga_id = facts(reply.meta)["id"]
        self.demo.say("agent", f"saga_begin: {purpose}")
        self.demo.say("server", last_text(reply.content))

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool in the saga; return the facts of the reply."""
        shown = ", ".join(str(value) for value in arguments.values())
        self.demo.say("agent", f"{tool}({shown})" if shown else tool)
        reply = await self.client.call_tool(tool, {**arguments, "saga_id": self.saga_id})
        self.demo.say("server", last_text(reply.content))
        return facts(reply.meta)

    async def state(self) -> dict[str, Any]:
        """Ask what became of the saga."""
        reply = await self.client.call_tool("saga_status", {"saga_id": self.saga_id})
        return dict(reply.structured_content or {})

    async def book(self, who: str) -> None:
        """Book a flight and a room: the first two steps of a trip."""
        await self.call("book_flight", flight="TP531", passenger=who)
        await self.call("reserve_hotel", hotel="Casa do Rio", guest=who, arrives="2027-03-12", nights=3)

    async def ends(self, expected: str, facts_: Mapping[str, Any]) -> None:
        """Compare the saga's state with the story, as the reply and as `saga_status` say it."""
        now = await self.state()
        if not facts_["state"] == now["state"] == expected:
            raise NotAsClaimed(f"the saga should be {expected}; the reply says {facts_['state']}, saga_status {now}")
        self.demo.say("saga", now["summary"])

    async def was_undone(self, *steps: int) -> None:
        """Compare the order of the undos with the story, as the saga log has it."""
        show = [str(COMMAND), "show", self.saga_id, "--timeline", "--json", "--config", str(self.demo.config)]
        shown = json.loads((await anyio.run_process(show)).stdout)
        undos = [event for event in shown["timeline"] if event["event"] == "UNDO_SUCCEEDED"]
        if [event["step"] for event in undos] != [*steps]:
            raise NotAsClaimed(f"steps {steps} should be undone in this order; the log says {undos}")
        self.demo.say("log", "undone in this order: " + ", ".join(f"{each['step']} {each['tool']}" for each in undos))


def facts(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """The saga facts of a reply."""
    return dict((meta or {}).get("saga", {}))


def last_text(content: list[Any]) -> str:
    """What the model reads last."""
    return str(content[-1].text)


def describe(world: World) -> str:
    """The world in words."""
    booked = [*world.flights, *world.hotels]
    refunds = f"; payments refunded: {world.refunds}" if world.refunds else ""
    return f"{', '.join(booked) or 'nothing booked'}; {world.paid_cents / 100:.2f} paid{refunds}"


async def kept(demo: Demo) -> None:
    """Three steps and a commit."""
    async with demo.server() as agent:
        await agent.begin("a trip to Lisbon for Ada")
        await agent.book("Ada Lovelace")
        await agent.call("charge_card", card=ADA, cents=61_500, purpose="Lisbon")
        await agent.ends("committed", await agent.call("saga_commit"))
    demo.claim("kept", World(("TP531",), ("Casa do Rio",), 61_500))


async def third_step_fails(demo: Demo) -> None:
    """The card is declined, so the server gives the room and the seat back, in this order, by itself."""
    before = demo.world()
    async with demo.server() as agent:
        await agent.begin("the same for Charles, with a card that is too small")
        await agent.book("Charles Babbage")
        reply = await agent.call("charge_card", card=BABBAGE, cents=61_500, purpose="Lisbon")
        await agent.ends("compensated", reply)
        await agent.was_undone(2, 1)
    demo.claim("as before", before)


async def given_up(demo: Demo) -> None:
    """The agent changes its mind after the payment."""
    before = demo.world()
    async with demo.server() as agent:
        await agent.begin("one more trip for Ada, which is called off")
        await agent.book("Ada Lovelace")
        await agent.call("charge_card", card=ADA, cents=61_500, purpose="Lisbon")
        await agent.ends("compensated", await agent.call("saga_abort", reason="the meeting is cancelled"))
        await agent.was_undone(3, 2, 1)
    demo.claim("as before", before._replace(refunds=before.refunds + 1))


async def server_killed(demo: Demo) -> None:
    """The server dies after the money has left and before anybody was told; the next one finds out and refunds it."""
    before = demo.world()
    after_payment = before.paid_cents + 61_500
    async with demo.server(slow_s=1, pid_file=demo.folder / "pid") as agent:
        await agent.begin("a trip for Grace, during which the server is killed")
        saga_id = agent.saga_id
        await agent.book("Grace Hopper")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill_when_paid, demo, after_payment)
            try:
                await agent.call("charge_card", card=ADA, cents=61_500, purpose="Lisbon")
            except MCPError as lost:
                demo.say("agent", f"no answer: {lost}")
            else:
                raise NotAsClaimed("the server answered, although it was killed")
    paid = before._replace(paid_cents=after_payment, flights=(*before.flights, "TP531"))
    demo.claim("the money has left, nobody was told", paid._replace(hotels=(*before.hotels, "Casa do Rio")))

    demo.say("demo", "the server is started again")
    async with demo.server() as agent:
        agent.saga_id = saga_id
        now = await until(agent.state, lambda now: now["steps"][2]["state"] == "succeeded")
        demo.say("server", f"step 3 charge_card: {now['steps'][2]['state']}, found by its key; an abort would now:")
        for move in now["undo_plan"]:
            demo.say("", f"    step {move['step']} {move['tool']}: {move['does']}")
        await agent.ends("compensated", await agent.call("saga_abort", reason="the connection broke"))
        await agent.was_undone(3, 2, 1)
    demo.claim("as before", before._replace(refunds=before.refunds + 1))


async def kill_when_paid(demo: Demo, cents: int) -> None:
    """Send SIGKILL once the payment is in the world, while the server has not answered yet."""

    async def look() -> World:
        return demo.world()

    await until(look, lambda world: world.paid_cents == cents)
    pid = int(await anyio.Path(demo.folder / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    demo.say("demo", f"kill -9 {pid}, in the middle of charge_card")


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Look again and again until what is seen holds; return it."""
    with anyio.fail_after(LONGEST_WAIT_S):
        while not holds(seen := await look()):  # noqa: ASYNC110 - what other processes do comes with no event
            await anyio.sleep(0.02)
    return seen


async def as_claude_desktop(demo: Demo) -> None:
    """Fill in the template, and start what it says: absolute command, foreign folder, next to no environment."""
    before = demo.world()
    entry = json.loads(filled_in(COMMAND, demo.config))["mcpServers"]["travel"]
    bare = {"PATH": "/usr/bin:/bin", "TRAVEL_WORLD": str(demo.folder / "world.db")}
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=bare, cwd="/")
    async with demo.connected(server, like_desktop=True) as agent:
        tools = await agent.client.list_tools()
        demo.say("server", f"protocol {agent.client.protocol_version}; tools: {', '.join(t.name for t in tools.tools)}")
        await agent.begin("the trip back")
        await agent.call("book_flight", flight="TP532", passenger="Ada Lovelace")
        await agent.ends("committed", await agent.call("saga_commit"))
    demo.claim("kept", before._replace(flights=(*before.flights, "TP532")))


def filled_in(command: Path, config: Path) -> str:
    """Return `claude_config.example.json` with its placeholders filled in."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, path in {"command": command, "config": config}.items():
        text = text.replace("{{" + name + "}}", json.dumps(str(path))[1:-1])
    return text


STORIES = {
    "A saga that is committed": kept,
    "The third step fails: the server undoes the others, last first": third_step_fails,
    "The agent gives up: saga_abort": given_up,
    "The server is killed in the middle of a call": server_killed,
    "The same, started as Claude Desktop starts it": as_claude_desktop,
}


def leaf(failed: BaseException) -> BaseException:
    """Unwrap what task groups have wrapped."""
    match failed:
        case BaseExceptionGroup(exceptions=[inner, *_]):
            return leaf(inner)
        case _:
            return failed


async def main() -> int:
    """Tell all stories, one world for all of them; return the exit code."""
    exit_code = 0
    with tempfile.TemporaryDirectory(prefix="saga-mcp-demo-") as name:
        demo = Demo(Path(name))
        demo.config.write_text(CONFIG.format(travel=json.dumps(f"{HERE / 'travel.py'}:registry")), encoding="utf-8")
        try:
            with anyio.fail_after(LONGEST_DEMO_S):
                for number, (title, story) in enumerate(STORIES.items(), start=1):
                    print(f"\n{number}. {title}\n", flush=True)
                    await story(demo)
        except* (NotAsClaimed, MCPError, OSError) as failed:
            print(f"\nNOT AS CLAIMED: {leaf(failed)!r}\n\nThe server's log ends:", file=sys.stderr)
            print(*demo.log.read_text(encoding="utf-8").splitlines()[-20:], sep="\n", file=sys.stderr)
            exit_code = 1
        else:
            print("\nEverything is as claimed. For Claude Desktop, this goes into claude_desktop_config.json:\n")
            print(filled_in(COMMAND, HERE / "saga.toml"))
    return exit_code


if __name__ == "__main__":
    sys.exit(anyio.run(main))
