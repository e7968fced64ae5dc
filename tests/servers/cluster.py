"""Plays the API server of a Kubernetes cluster over HTTP, for the server that talks to it.

After the API's documentation: discovery, reading, server-side apply with one manager, the scale subresource, deletion,
and the refusals that an undo can meet. What it was asked to change is kept in order.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]

RESOURCES = {
    "v1": {"configmaps": "ConfigMap", "pods": "Pod", "services": "Service", "secrets": "Secret"},
    "apps/v1": {"deployments": "Deployment"},
    "rbac.authorization.k8s.io/v1": {"roles": "Role"},
}
_OBJECT = re.compile(
    r"/(?:api|apis)/(?P<api>.+?)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)/(?P<name>[^/]+)(?P<scale>/scale)?"
)
_GENERATED = {"uid": "", "resourceVersion": "", "creationTimestamp": "2026-01-01T00:00:00Z"}

Key = tuple[str, str, str]
"""Namespace, plural and name."""


class Refused(Exception):
    """The API says no."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code} | {
            "reason": reason,
            "message": message,
        }


@dataclass
class Cluster:
    """What is in it, and what was asked of it."""

    objects: dict[Key, Json] = field(default_factory=dict[Key, Json])
    owned: dict[Key, set[tuple[str, ...]]] = field(default_factory=dict[Key, set[tuple[str, ...]]])
    """What the manager has applied, by its path."""
    writes: list[tuple[str, str, Json]] = field(default_factory=list[tuple[str, str, Json]])
    """Method, path and body of all that was to change something, as it arrived."""
    changes: int = 0

    def put(self, api: str, plural: str, name: str, **content: object) -> None:
        """What somebody else made, as it stands."""
        kind = RESOURCES[api][plural]
        made: Json = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **content}
        self._keep(("default", plural, name), made)

    def wanted(self) -> dict[Key, Json]:
        """What somebody wants of the cluster: without status, and without what is generated."""
        return {key: _wanted(value) for key, value in self.objects.items()}

    def go_on(self, plural: str, name: str) -> None:
        """What controllers do: they report, and number revisions."""
        key = ("default", plural, name)
        told = copy.deepcopy(self.objects[key])
        told["status"] = {"observed": self.changes}
        told["metadata"].setdefault("annotations", {})["deployment.kubernetes.io/revision"] = str(self.changes)
        self._keep(key, told)

    def change(self, plural: str, name: str, **content: object) -> None:
        """What a person does."""
        key = ("default", plural, name)
        self._keep(key, {**copy.deepcopy(self.objects[key]), **content})

    def answer(self, method: str, path: str, body: Json) -> Json:
        """Do what a request asks for."""
        if method != "GET":
            self.writes.append((method, path, body))
        found = _OBJECT.fullmatch(path)
        if found is None:
            return _discovered(path)
        key = (found["namespace"], found["plural"], found["name"])
        if method == "PATCH":
            return self._applied(key, body)
        if key not in self.objects:
            group = f".{found['api'].partition('/')[0]}" if "/" in found["api"] else ""
            raise Refused(404, "NotFound", f'{key[1]}{group} "{key[2]}" not found')
        if method == "DELETE":
            del self.objects[key]
            self.owned.pop(key, None)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if found["scale"]:
            return self._scaled(key, body if method == "PUT" else None)
        return self.objects[key]

    def _applied(self, key: Key, config: Json) -> Json:
        metadata = config["metadata"]
        live = self.objects.get(key)
        if metadata.get("managedFields"):
            raise Refused(400, "BadRequest", "metadata.managedFields must be nil")
        for name in ("uid", "resourceVersion"):
            if name in metadata and metadata[name] != (live or {"metadata": {}})["metadata"].get(name):
                raise Refused(409, "Conflict", f"the {name} in the precondition does not match")
        applied = set(_leaves(config))
        now = copy.deepcopy(live) if live is not None else {"metadata": {"namespace": key[0]}}
        for path in self.owned.get(key, set()) - applied:
            _drop(now, path)
        self._keep(key, _merged(now, config))
        self.owned[key] = applied
        return self.objects[key]

    def _scaled(self, key: Key, scale: Json | None) -> Json:
        now = copy.deepcopy(self.objects[key])
        if scale is not None:
            now["spec"]["replicas"] = scale["spec"]["replicas"]
            self._keep(key, now)
        metadata = {name: now["metadata"][name] for name in ("name", "namespace")}
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata} | {
            "spec": {"replicas": now["spec"]["replicas"]}
        }

    def _keep(self, key: Key, value: Json) -> None:
        old = self.objects.get(key)
        self.changes += 1
        metadata = {**_GENERATED, "uid": f"uid-{self.changes}", **value["metadata"]}
        if old is not None:
            metadata["uid"] = old["metadata"]["uid"]
        metadata["resourceVersion"] = str(self.changes)
        if value["kind"] == "Deployment":
            value = {**value, "spec": {"replicas": 1, "revisionHistoryLimit": 10, **value["spec"]}}
        self.objects[key] = {"status": {}, **value, "metadata": metadata}

    @contextmanager
    def served(self, folder: Path) -> Generator[Path]:
        """Serve it; the file that tells a client where."""
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # nothing
                pass

            def answer(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    code = 200
                    told = cluster.answer(self.command, self.path.partition("?")[0], json.loads(raw or b"{}"))
                except Refused as refused:
                    told, code = refused.status, cast("int", refused.status["code"])
                content = json.dumps(told).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = answer  # noqa: N815 - their names

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        config = folder / "kubeconfig"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "played", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "users": [{"name": "ada", "user": {}}],
                    "contexts": [
                        {"name": "played", "context": {"cluster": "played", "user": "ada", "namespace": "default"}}
                    ],
                    "current-context": "played",
                }
            )
        )
        try:
            yield config
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _discovered(path: str) -> Json:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [{"groupVersion": api, "version": api.partition("/")[2]} for api in RESOURCES if "/" in api]
        groups = [
            {"name": each["groupVersion"].partition("/")[0], "versions": [each], "preferredVersion": each}
            for each in versions
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    resources = RESOURCES.get(path.removeprefix("/apis/").removeprefix("/api/"))
    if resources is None:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    verbs = ["create", "delete", "get", "list", "patch", "update"]
    listed = [
        {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}
        for plural, kind in resources.items()
    ]
    if "deployments" in resources:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}
        listed.append({"name": "deployments/scale", "singularName": "", "namespaced": True, **scale})
    group_version = path.removeprefix("/apis/").removeprefix("/api/")
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": listed}


def _wanted(value: Json) -> Json:
    metadata = {name: each for name, each in value["metadata"].items() if name not in _GENERATED}
    annotations = {
        name: each for name, each in metadata.pop("annotations", {}).items() if "kubernetes.io/revision" not in name
    }
    return {**value, "status": {}, "metadata": {"labels": {}, **metadata, "annotations": annotations}}


def _leaves(value: Json, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, each in value.items():
        if isinstance(each, dict) and each:
            yield from _leaves(cast("Json", each), (*at, name))
        else:
            yield (*at, name)


def _drop(value: Json, path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        value = value.get(name, {})
    value.pop(path[-1], None)


def _merged(old: Json, new: Json) -> Json:
    merged = dict(old)
    for name, each in new.items():
        known = merged.get(name)
        merged[name] = (
            _merged(cast("Json", known), cast("Json", each))
            if isinstance(known, dict) and isinstance(each, dict)
            else each
        )
    return merged
