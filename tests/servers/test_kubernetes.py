"""The preset of the Kubernetes server, over the server itself, before an API server that plays a cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.behind import Agent, Behind
from tests.servers.cluster import Cluster
from tests.servers.test_deaths import lose

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SPEC: dict[str, Any] = {
    "replicas": 2,
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
}
TEXTS = {"motd": 'one "two"\n\\three\n', "empty": ""}
MANIFEST = """
# what the agent wants
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    name: other
    tier: front
  name: web
spec:
  replicas: 4
  paused: true
  template:
    metadata:
      name: template
"""


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.put("apps/v1", "deployments", "web", spec=SPEC)
    cluster.put("v1", "configmaps", "settings", data=TEXTS)
    cluster.put("v1", "secrets", "password", data={"a": "YQ=="})
    cluster.put("rbac.authorization.k8s.io/v1", "roles", "reader", rules=[{"verbs": ["get"], "resources": ["pods"]}])
    return cluster


@pytest.fixture
def behind(tmp_path: Path, cluster: Cluster) -> Iterator[Behind]:
    behind = Behind(tmp_path, deadly=True)
    with cluster.served(tmp_path) as kubeconfig:
        behind.add_kubernetes(kubeconfig)
        yield behind


def manifest(kind: str, name: str, **content: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **content})


async def everything(agent: Agent, cluster: Cluster) -> None:
    """One of each call that can be undone, and what the cluster does by itself meanwhile."""
    await agent.do("k8s_resources_create_or_update", resource=MANIFEST)
    cluster.go_on("deployments", "web")
    await agent.do("k8s_resources_scale", **WEB, scale=9)
    await agent.do("k8s_resources_create_or_update", resource=manifest("ConfigMap", "settings", data={"motd": "new"}))
    await agent.do("k8s_resources_create_or_update", resource=manifest("ConfigMap", "fresh", data={"a": "1"}))
    await agent.do("k8s_resources_create_or_update", resource=MANIFEST.replace("name: web", 'name: "second"'))
    await agent.do("k8s_resources_delete", **SETTINGS)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "name": "reader", "namespace": "default"}
    await agent.do("k8s_resources_delete", **role)
    await agent.do("k8s_pods_run", name="job", image="job:1")
    await agent.do("k8s_pods_run", image="job:2")
    cluster.go_on("deployments", "web")
    await agent.do("k8s_resources_delete", **WEB)


async def test_an_abort_puts_every_object_back_as_it_was_wanted(behind: Behind, cluster: Cluster) -> None:
    before = cluster.wanted()
    async with behind.serve() as agent:
        await agent.begin()
        await everything(agent, cluster)
        assert cluster.wanted() != before
        done = len(cluster.writes)
        ended = await agent.abort()
    assert ended["state"] == "compensated", json.dumps(ended.get("items"))
    assert cluster.wanted() == before
    undone = [(method, path) for method, path, _ in cluster.writes[done:]]
    named = undone[1][1].removeprefix(f"{PODS}/")
    assert undone == [
        ("PATCH", f"{DEPLOYMENTS}/web"),
        ("DELETE", f"{PODS}/{named}"),
        ("DELETE", f"{PODS}/job"),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/reader"),
        ("PATCH", f"{CONFIGMAPS}/settings"),
        ("DELETE", f"{DEPLOYMENTS}/second"),
        ("DELETE", f"{CONFIGMAPS}/fresh"),
        ("PATCH", f"{CONFIGMAPS}/settings"),
        ("PUT", f"{DEPLOYMENTS}/web/scale"),
        ("PATCH", f"{DEPLOYMENTS}/web"),
    ]
    last = cluster.writes[-1][2]
    assert set(last) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(last["metadata"]) <= {"name", "namespace", "labels", "annotations"}


async def test_what_a_person_changed_since_is_not_overwritten(behind: Behind, cluster: Cluster) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("k8s_resources_create_or_update", resource=manifest("ConfigMap", "settings", data={"a": "1"}))
        cluster.change("configmaps", "settings", data={"a": "a person's"})
        asked = len(cluster.writes)
        ended = await agent.abort()
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert len(cluster.writes) == asked


async def test_what_holds_data_or_cannot_be_told_is_a_point_of_no_return(behind: Behind, cluster: Cluster) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("resources_delete", {"apiVersion": "v1", "kind": "Secret", "name": "password"}),
        ("resources_create_or_update", {"resource": manifest("Secret", "password", data={})}),
        ("resources_create_or_update", {"resource": MANIFEST + "---\n" + MANIFEST}),
        ("resources_create_or_update", {"resource": MANIFEST.replace("  name: web\n", "  generateName: web\n")}),
        ("pods_run", {"image": "job:1", "name": "job", "port": 80}),
    ]
    async with behind.serve() as agent:
        for tool, arguments in calls:
            await agent.begin()
            before = copy.deepcopy(cluster.objects)
            reply = await agent.try_to(f"k8s_{tool}", **arguments)
            status = await agent.do("saga_status")
            assert [step["kind"] for step in status["steps"]] == ["pivot"], (tool, arguments)
            if not reply.is_error:
                refused = await agent.client.call_tool("saga_abort", {"saga_id": agent.saga})
                assert refused.is_error
                assert cluster.objects != before
            await agent.client.call_tool("saga_commit", {"saga_id": agent.saga})


async def test_reading_a_scale_is_no_step(behind: Behind, cluster: Cluster) -> None:
    async with behind.serve() as agent:
        await agent.begin()
        await agent.do("k8s_resources_scale", **WEB)
        status = await agent.do("saga_status")
    assert status["steps"] == []
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("resources_delete", SETTINGS),
        ("resources_scale", {**WEB, "scale": 5}),
        ("resources_create_or_update", {"resource": MANIFEST}),
        ("resources_create_or_update", {"resource": manifest("ConfigMap", "fresh", data={"a": "1"})}),
    ],
    ids=["delete", "scale", "change", "create"],
)
async def test_a_server_that_died_before_it_asked_the_cluster_has_done_nothing(
    behind: Behind, cluster: Cluster, tool: str, arguments: dict[str, Any]
) -> None:
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "before", f"k8s_{tool}", arguments)
    assert (ended["state"], ended["steps"][0]["state"]) == ("compensated", "failed"), ended
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("resources_delete", SETTINGS), ("resources_scale", {**WEB, "scale": 5})],
    ids=["delete", "scale"],
)
async def test_what_a_server_did_before_it_died_is_found_and_undone(
    behind: Behind, cluster: Cluster, tool: str, arguments: dict[str, Any]
) -> None:
    before = cluster.wanted()
    async with behind.serve() as agent:
        standing = await lose(agent, behind, "after", f"k8s_{tool}", arguments)
        assert (standing["state"], standing["steps"][0]["state"]) == ("active", "succeeded"), standing
        assert cluster.wanted() != before
        ended = await agent.abort()
    assert ended["state"] == "compensated", json.dumps(ended.get("items"))
    assert cluster.wanted() == before


async def test_who_changed_an_object_is_not_guessed(behind: Behind, cluster: Cluster) -> None:
    behind.saga = "probe_for_s = 0.1\n"
    async with behind.serve() as agent:
        ended = await lose(agent, behind, "after", "k8s_resources_create_or_update", {"resource": MANIFEST})
    assert [item["kind"] for item in ended["items"]] == ["guard_conflict"]
    assert [method for method, _, _ in cluster.writes] == ["PATCH"]


async def test_the_check_finds_nothing_wrong(behind: Behind) -> None:
    async with behind.serve():
        pass
    checked = behind.run("check")
    assert (checked["errors"], checked["warnings"]) == ([], [])
