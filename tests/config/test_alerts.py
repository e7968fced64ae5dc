"""`[alerts]`: what is wrong is said without showing what may be secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, load_config

KEY = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
ENV = {"URL": "https://hooks.example.org/T/s3cret", "SECRET": KEY, "SHORT": "whsec_c2hvcnQ=", "PLAIN": "s3cret"}


def write(folder: Path, alerts: str) -> Path:
    path = folder / "saga.toml"
    path.write_text(f'[saga]\nname = "a"\n{alerts}\n', encoding="utf-8")
    return path


def test_the_receiver_is_filled_in_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(f"{KEY}\n", encoding="utf-8")
    path = write(tmp_path, '[alerts]\nwebhook = "${env:URL}"\nsecret = "${file:secret.txt}"')
    loaded = load_config(path, ENV)
    assert loaded.alerts is not None
    assert (loaded.alerts.url, loaded.alerts.secret, loaded.alerts.host) == (ENV["URL"], KEY, "hooks.example.org")
    assert "s3cret" not in repr(loaded)
    assert KEY not in repr(loaded)
    assert loaded.warnings == ()


def test_who_only_looks_needs_no_receiver(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, '[alerts]\nwebhook = "${env:URL}"'), {}, code=False).alerts is None
    assert load_config(write(tmp_path, ""), {}).alerts is None


@pytest.mark.parametrize(
    ("alerts", "key", "says"),
    [
        ("[alerts]", "alerts.webhook", "is required"),
        ("alerts = 1", "alerts", "must be a table"),
        ('[alerts]\nwebhook = "${env:NO}"', "alerts.webhook", "the environment has no NO"),
        ('[alerts]\nwebhook = "${env:PLAIN}"', "alerts.webhook", "must be a URL that begins with http"),
        ('[alerts]\nwebhook = "ftp://x/s3cret"', "alerts.webhook", "must be a URL that begins with http"),
        ('[alerts]\nwebhook = "https:///s3cret"', "alerts.webhook", "must be a URL with a host"),
        ('[alerts]\nwebhook = "https://x/s3cret me"', "alerts.webhook", "must be a URL with a host"),
        ('[alerts]\nwebhook = "https://x:s3cret/"', "alerts.webhook", "cannot be read as a URL"),
        ('[alerts]\nwebhook = "${env:URL}"\nsecret = "s3cret"', "alerts.secret", "must not stand in the config"),
        ('[alerts]\nwebhook = "${env:URL}"\nsecret = "${env:SHORT}"', "alerts.secret", "must be whsec_ and 24 to 64"),
        ('[alerts]\nwebhook = "${env:URL}"\nsecret = "${env:PLAIN}"', "alerts.secret", "must be whsec_ and 24 to 64"),
        ('[alerts]\nwebhok = "${env:URL}"', "alerts.webhok", "did you mean webhook?"),
    ],
)
def test_what_is_wrong_is_named(alerts: str, key: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "saga.toml"
    path.write_text(f"{alerts}\n", encoding="utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, ENV)
    assert any(problem.key == key and says in problem.message for problem in caught.value.problems)
    assert "s3cret" not in str(caught.value)


def test_what_is_sent_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    (warning,) = load_config(write(tmp_path, '[alerts]\nwebhook = "http://example.org/"'), {}).warnings
    assert "is not encrypted on its way" in warning.message
    for host in ("127.0.0.1:8000", "localhost", "[::1]:80"):
        assert load_config(write(tmp_path, f'[alerts]\nwebhook = "http://{host}/"'), {}).warnings == ()
