"""What is delivered in `deploy/`: the same commands and the same config, without the containers around them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.product import BOUND_S, COMMAND
from tests.http.balancer import balancing
from tests.http.serving import Server, agent, server_of
from tests.postgres import server as postgres_server
from tests.postgres.server import PostgresServer
from tests.temporal.dev_server import dev_server
from tests.world.running import Running, running

from saga_mcp import app

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"].startswith("saga-mcp:")}


ALIVE = "/tmp/alive"  # noqa: S108 - in the containers
WORKER: dict[str, Any] = next(yaml.safe_load_all((DEPLOY / "kubernetes" / "worker.yaml").read_text(encoding="utf-8")))
PROBES = (
    WORKER["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["exec"]["command"][-1],
    OURS["worker"]["healthcheck"]["test"][-1].replace("$$", "$"),
)
"""What a shell is asked, in Kubernetes and with Docker."""


def lives(probe: str, file: Path) -> bool:
    """What a probe says of a worker that has this file."""
    assert ALIVE in probe
    return subprocess.run(["/bin/sh", "-c", probe.replace(ALIVE, str(file))], check=False).returncode == 0


@dataclass(frozen=True)
class Deployment:
    """The services that are needed, and what ours are started with."""

    folder: Path
    postgres: PostgresServer
    token: str
    environment: Mapping[str, str]

    @property
    def tickets(self) -> list[str]:
        return self.postgres.sql("SELECT title FROM ticket ORDER BY title", "saga").split()

    def command(self, service: str, number: int) -> list[str]:
        ours = {"0.0.0.0:8000": "127.0.0.1:0", ALIVE: str(self.alive(number))}
        arguments: list[str] = OURS[service]["command"]
        return [*COMMAND, *(ours.get(each, each) for each in arguments)]

    def alive(self, number: int) -> Path:
        return self.folder / f"alive{number}"

    @asynccontextmanager
    async def running(self, service: str, number: int) -> AsyncGenerator[Running]:
        home = self.folder / f"{service}{number}"  # each container has one of its own
        environment = {**os.environ, **self.environment, "XDG_DATA_HOME": str(home)}
        async with running(self.command(service, number), home.with_suffix(".log"), env=environment) as started:
            yield started

    @asynccontextmanager
    async def worker(self, number: int) -> AsyncGenerator[Running]:
        async with self.running("worker", number) as started:
            await started.says("worker_ready")
            assert lives(PROBES[0], self.alive(number))
            yield started

    @asynccontextmanager
    async def server(self, number: int) -> AsyncGenerator[Server]:
        async with self.running("server", number) as started:
            yield await server_of(started)


@pytest.fixture
def deployment(tmp_path: Path) -> Generator[Deployment]:
    made = subprocess.run([*COMMAND, "token", "alice", "--json"], check=True, capture_output=True, timeout=BOUND_S)
    alice = json.loads(made.stdout)
    for path in (DEPLOY / "config").iterdir():
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for placeholder, value in (
            ("/run/secrets", str(tmp_path)),
            ("sha256:PUT HERE WHAT saga-mcp token alice PRINTS", alice["hash"]),
            ("[http]", '[http]\nallowed_hosts = ["127.0.0.1:*"]'),  # the port of the balancer is anybody's guess
        ):
            text = text.replace(placeholder, value)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    (tmp_path / "saga_database_password").write_text("no-secret\n", encoding="utf-8")
    with postgres_server.running() as postgres, dev_server(tmp_path) as temporal:
        postgres.sql("CREATE DATABASE saga")
        given = {
            "SAGA_DATABASE_HOST": f"127.0.0.1:{postgres.port}",
            "SAGA_TEMPORAL": temporal.address,
            "SAGA_PASSWORD_FILE": str(tmp_path / "saga_database_password"),
        }
        assert all(service["environment"].keys() == given.keys() for service in OURS.values())
        environment = {**given, "SAGA_MCP_CONFIG": str(tmp_path / "saga.toml")}
        yield Deployment(tmp_path, postgres, alice["token"], environment)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_three_servers_and_two_workers_undo_what_a_killed_one_began(deployment: Deployment) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(deployment.server(number)) for number in range(3)]
        for number in range(2):
            await stack.enter_async_context(deployment.worker(number))
        balancer = await stack.enter_async_context(balancing(*servers))
        async with agent(balancer.url, deployment.token, keep=False) as alice:
            kept = await alice.begin()
            undone = await alice.begin()
            for title in ("a", "b", "c"):
                assert not (await alice.call("open_ticket", title=f"kept-{title}", saga_id=kept)).is_error
                assert not (await alice.call("open_ticket", title=f"undone-{title}", saga_id=undone)).is_error
            assert len(deployment.tickets) == 6
            servers[0].process.kill()
            await servers[0].process.exits()  # else the balancer may still reach it
            assert (await alice.call("saga_commit", saga_id=kept)).state == "committed"
            await alice.call("saga_abort", saga_id=undone)
            await alice.until(undone, "compensated")
        assert deployment.tickets == ["kept-a", "kept-b", "kept-c"]


def test_the_config_is_refused_until_it_has_a_token(tmp_path: Path) -> None:
    text = (DEPLOY / "config" / "saga.toml").read_text(encoding="utf-8").replace("/run/secrets", str(tmp_path))
    (tmp_path / "saga.toml").write_text(text, encoding="utf-8")
    (tmp_path / "desk.py").write_text("from saga_tools import ToolRegistry\n\nregistry = ToolRegistry()\n")
    (tmp_path / "saga_database_password").write_text("x", encoding="utf-8")
    environment = dict.fromkeys(OURS["server"]["environment"], "127.0.0.1:1")
    with pytest.raises(Exception, match=r"auth\.tokens\.alice"):
        app.load(tmp_path / "saga.toml", environ=environment)


def test_no_container_of_ours_may_write_or_rise() -> None:
    assert OURS.keys() == {"server", "worker"}
    for service in OURS.values():
        assert (service["read_only"], service["user"], service["cap_drop"]) == (True, "10001", ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if each["kind"] != "Deployment":
                continue
            pod = each["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_kubernetes_starts_what_compose_starts() -> None:
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        deployment = next(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        service = OURS[path.stem]
        assert container["args"] == service["command"]
        assert {each["name"]: each["value"] for each in container["env"]} == service["environment"]
        assert deployment["spec"]["replicas"] == service["deploy"]["replicas"]


@pytest.mark.parametrize("probe", PROBES)
def test_a_worker_whose_file_is_old_or_missing_does_not_live(probe: str, tmp_path: Path) -> None:
    file = tmp_path / "alive"
    assert not lives(probe, file)
    file.touch()
    assert lives(probe, file)
    an_age_ago = time.time() - 130
    os.utime(file, (an_age_ago, an_age_ago))
    assert not lives(probe, file)


def test_no_image_is_whatever_is_the_newest() -> None:
    for service in COMPOSE["services"].values():
        tag = service["image"].partition(":")[2]
        assert tag, service["image"]
        assert "latest" not in tag
