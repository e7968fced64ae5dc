"""`[temporal]`, and `driver` of `[saga]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, load_config

KEY = "-----BEGIN PRIVATE KEY-----"


def written(folder: Path, temporal: str, *, driver: str = "temporal") -> Path:
    config = folder / "saga.toml"
    config.write_text(f'[saga]\nname = "ops"\ndriver = "{driver}"\n[temporal]\n{temporal}\n')
    return config


def test_without_a_word_the_dev_server_is_meant_and_nothing_is_encrypted(tmp_path: Path) -> None:
    place = load_config(written(tmp_path, ""), {}).temporal
    assert place is not None
    assert (place.address, place.namespace, place.tls) == ("127.0.0.1:7233", "default", False)
    assert place.queue_of("ops") == "saga-mcp/ops"


def test_another_driver_needs_no_temporal(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "", driver="local"), {}).temporal is None


def test_a_key_is_filled_in_encrypts_the_connection_and_is_never_shown(tmp_path: Path) -> None:
    config = written(tmp_path, 'address = "ops.tmprl.cloud:7233"\napi_key = "${env:TEMPORAL_KEY}"')
    place = load_config(config, {"TEMPORAL_KEY": "secret"}).temporal
    assert place is not None
    assert (place.tls, place.api_key) == (True, "secret")
    assert "secret" not in repr(place)


def test_certificates_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(KEY)
    (tmp_path / "cert.pem").write_text("CERT")
    config = written(tmp_path, 'client_cert = "${file:cert.pem}"\nclient_key = "${file:key.pem}"')
    place = load_config(config, {}).temporal
    assert place is not None
    assert (place.tls, place.client_cert, place.client_key) == (True, b"CERT", KEY.encode())
    assert KEY not in repr(place)


@pytest.mark.parametrize(
    ("temporal", "problem"),
    [
        ('address = "http://127.0.0.1:7233"', "must be HOST:PORT"),
        ('address = "127.0.0.1"', "must be HOST:PORT"),
        ('api_key = "plain"', "must not stand in the config"),
        ('api_key = "${env:NOT_THERE}"', "the environment has no NOT_THERE"),
        ('api_key = "${env:K}"\ntls = false', "be sent in clear"),
        ('client_cert = "${env:K}"', "goes together with client_key"),
        ('adress = "127.0.0.1:7233"', "adress"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(tmp_path: Path, temporal: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        load_config(written(tmp_path, temporal), {"K": "k"})


def test_the_names_of_a_realm_in_temporal_are_harmless_and_its_own() -> None:
    from saga_mcp.engine.drivers.temporal.place import workflow_id  # noqa: PLC0415 - of this test only

    realms = ["ops", "a/b", "a%2Fb", "a b", "ä", "x" * 500, "x" * 501]
    names = {workflow_id(realm, "sg-1") for realm in realms}
    assert len(names) == len(realms)
    assert all(name.count("/") == 2 and len(name) < 300 and name.isascii() and " " not in name for name in names)
