"""An authorisation server for tests: its metadata and keys, over real HTTP on loopback. It signs what it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "https://saga.example.com/mcp"


class Issuer:
    """The server, and what it publishes just now."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.named = self.url
        """The issuer that its metadata names."""
        self.private: dict[str, Any] = {}
        self.published: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.broken = False
        self.answers = threading.Event()
        """Cleared: it takes connections and says nothing."""
        self.answers.set()
        self.add("one")

    def add(self, key_id: str, kind: str = "RSA") -> None:
        """Make a key, and publish it."""
        if kind == "RSA":
            private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        else:
            curve = ec.generate_private_key(ec.SECP256R1())
            private, public = curve, ECAlgorithm.to_jwk(curve.public_key(), as_dict=True)  # type: ignore[assignment]
        self.private[key_id] = private
        self.published.append({**public, "kid": key_id, "use": "sig"})

    def rotate(self, key_id: str) -> None:
        """Publish a new key, and no old one any more."""
        self.published.clear()
        self.add(key_id)

    def token(
        self,
        subject: str = "alice",
        *,
        key_id: str = "one",
        algorithm: str = "",
        headers: dict[str, Any] | None = None,
        **claims: object,
    ) -> str:
        """A token as it would be issued, but for what is said otherwise; a claim of None is left out."""
        now = int(time.time())
        all_claims = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 300, **claims}
        said = {name: value for name, value in all_claims.items() if value is not None}
        private = self.private[key_id]
        algorithm = algorithm or ("RS256" if isinstance(private, rsa.RSAPrivateKey) else "ES256")
        return jwt.encode(said, private, algorithm=algorithm, headers={"kid": key_id, **(headers or {})})

    def answer(self, path: str) -> object:
        """What is at a path; None: nothing."""
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.named, "jwks_uri": f"{self.url}/keys"}
        return {"keys": self.published} if path == "/keys" else None


@contextmanager
def issuing() -> Generator[Issuer]:
    """An authorisation server until the block ends."""
    issuer: list[Issuer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer[0].answers.wait(60)
            found = None if issuer[0].broken else issuer[0].answer(self.path)
            self.send_response(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK)
            body = b"" if found is None else json.dumps(found).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.append(Issuer(server.server_port))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield issuer[0]
    finally:
        issuer[0].answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
