"""`[http]`, `[auth]`, `[teams]` and `[limits]`: what is wrong is told at once, with its key and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, LoadedConfig, load_config

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32


def loaded(folder: Path, text: str) -> LoadedConfig:
    path = folder / "saga.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, {}, code=False)


def problems(folder: Path, text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigInvalid) as caught:
        loaded(folder, text)
    return [(problem.key, problem.message) for problem in caught.value.problems]


def test_a_shared_server_is_described(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        f"""
[http]
public_url = "https://saga.example.com/mcp"
allowed_hosts = ["saga:8000", "10.0.0.7:*"]
replies = "sse"
[auth]
operators = ["ada"]
[auth.tokens]
ada = ["{HASH}", "{OTHER}"]
[auth.oauth]
issuer = "https://login.example.com"
[teams.desk]
members = ["ada", "bob"]
[limits]
open_sagas = 0
running_steps = 4
""",
    )
    people = found.shared.people
    assert people.tokens == {"ada": ("ab" * 32, "cd" * 32)}
    assert people.oauth is not None
    assert people.oauth.audience == "https://saga.example.com/mcp"
    assert people.teams["desk"].members == {"ada", "bob"}
    assert people.limits.open_sagas == 0
    assert found.settings.running_steps == 4
    assert not found.shared.http.json_replies
    assert found.warnings == ()


def test_without_any_of_it_nobody_is_told_apart(tmp_path: Path) -> None:
    found = loaded(tmp_path, "")
    assert not found.shared.people.told_apart
    assert found.settings.running_steps == 32


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ('[http]\npublic_url = "saga.example.com"', "http.public_url", "must be a URL that begins with https://"),
        ('[http]\npublic_url = "https://a:b@c/mcp"', "http.public_url", "without ?, # or a password"),
        ('[http]\nallowed_origins = ["*"]', "http.allowed_origins", '"*" is no origin: say https://HOST'),
        ('[http]\nallowed_hosts = ["*"]', "http.allowed_hosts", '"*" is no host: say NAME'),
        ("[http]\nmax_body_bytes = 1", "http.max_body_bytes", "must be greater than or equal to 1024"),
        ('[auth.tokens]\nada = "secret"', "auth.tokens.ada", "`saga-mcp token NAME` makes a token"),
        (f'[auth.tokens]\n"team:a" = "{HASH}"', 'auth.tokens."team:a"', "does not begin with team:"),
        (f'[auth.tokens]\nada = "{HASH}"\nbob = "{HASH}"', "auth.tokens.bob", "is the token of ada too"),
        ('[auth.oauth]\nissuer = "https://a.example"', "auth.oauth.audience", "any other service of this issuer"),
        (
            '[auth.oauth]\nissuer = "http://a.example"\naudience = "x"',
            "auth.oauth.issuer",
            "is not encrypted on its way",
        ),
        (
            '[auth.oauth]\nissuer = "https://a.example"\naudience = "x"\nalgorithms = ["HS256"]',
            "auth.oauth.algorithms[0]",
            'must be "RS256"',
        ),
        (
            '[auth.oauth]\nissuer = "https://a.example"\naudience = "x"\nrequired_scopes = ["o"]\noperator_scope = "o"',
            "auth.oauth",
            "everybody would be an operator",
        ),
        ('[auth]\ntoken = { ada = "x" }', "auth.token", "unknown key; did you mean tokens?"),
        ("[teams.desk]\nmembers = []", "teams.desk.members", "at least 1"),
        ('[teams.desk]\nmembers = ["a"]\ncommit = "all"', "teams.desk.commit", 'must be "opener" or "any"'),
        ("[limits]\nopen_sagas = -1", "limits.open_sagas", "must be greater than or equal to 0"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, key: str, message: str) -> None:
    [(found, said)] = problems(tmp_path, text)
    assert found == key
    assert message in said


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('[http]\npublic_url = "http://saga.example.com/mcp"', "is not encrypted on its way"),
        ('[teams.desk]\nmembers = ["a"]', "nobody is told apart without [auth]"),
        (f'[auth]\noperators = ["eve"]\n[auth.tokens]\nada = "{HASH}"', '"eve" has no token'),
        (f'[teams.desk]\nmembers = ["eve"]\n[auth.tokens]\nada = "{HASH}"', '"eve" has no token'),
    ],
)
def test_what_cannot_be_meant_is_warned_of(tmp_path: Path, text: str, warning: str) -> None:
    [found] = loaded(tmp_path, text).warnings
    assert warning in found.message
