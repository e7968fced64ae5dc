"""Plain functions over one folder, paired in a config: nothing in them knows of any undo."""

import json
from pathlib import Path

HERE = Path(__file__).parent


def _note(line: str) -> None:
    with (HERE / "journal").open("a") as journal:
        journal.write(f"{line}\n")


def _table(name: str) -> dict[str, str]:
    path = HERE / f"{name}.json"
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _store(name: str, table: dict[str, str]) -> None:
    (HERE / f"{name}.json").write_text(json.dumps(table))


def read_text(path: str) -> dict[str, str]:
    _note(f"read {path}")
    return {"content": (HERE / path).read_bytes().decode(errors="replace")}


def write_text(path: str, content: str) -> str:
    _note(f"write {path}")
    (HERE / path).write_text(content)
    return "ok"


def delete_text(path: str) -> None:
    _note(f"delete {path}")
    (HERE / path).unlink()


def list_states(key: str) -> dict[str, list[dict[str, str]]]:
    del key
    return {"transitions": [{"to": "open", "id": "11"}, {"to": "done", "id": "31"}]}


def state(key: str) -> dict[str, str]:
    return {"status": _table("states").get(key, "open")}


def move(key: str, transition: str, notify: bool = True) -> None:  # noqa: FBT001, FBT002 - a JSON argument
    _note(f"move {key} {transition} notify={notify}")
    _store("states", {**_table("states"), key: {"11": "open", "31": "done"}[transition]})


def act(method: str, name: str, key: str) -> dict[str, str]:
    _note(f"{method} {name} {key}")
    if method == "lose":
        raise ConnectionError("gone")
    _store("acts", {**_table("acts"), key: name})
    if method == "lost":
        raise ConnectionError("gone")
    return {"id": key}


def find_act(key: str) -> dict[str, list[str]]:
    return {"found": [key] if key in _table("acts") else []}


def take_back(id: str) -> None:  # noqa: A002 - as such tools call it
    _note(f"take back {id}")
    acts = _table("acts")
    if id not in acts:
        raise LookupError("it was taken back already")
    del acts[id]
    _store("acts", acts)


def rewrite(path: str) -> None:
    _note(f"rewrite {path}")
    (HERE / path).write_text("rewritten")


def tags(name: str) -> dict[str, list[str]]:
    found: list[str] = json.loads((HERE / f"{name}.tags").read_text()) if (HERE / f"{name}.tags").exists() else []
    return {"tags": found}


def tag(name: str, add: str) -> str:
    _note(f"tag {name} {add}")
    (HERE / f"{name}.tags").write_text(json.dumps([*tags(name)["tags"], add]))
    return "ok"


def set_tags(name: str, to: list[str]) -> None:
    _note(f"set {name} {','.join(to)}")
    (HERE / f"{name}.tags").write_text(json.dumps(to))


def number(name: str) -> int:
    """Give something a number, and do not say which."""
    numbers = _table("numbers")
    _note(f"number {name}")
    _store("numbers", {**numbers, name: str(len(numbers) + 1)})
    return 0


def number_of(name: str) -> dict[str, str]:
    return {"number": _table("numbers").get(name, "")}


def free(number: str, lose: bool = True) -> None:  # noqa: FBT001, FBT002 - a JSON argument
    _note(f"free {number}")
    _store("numbers", {name: each for name, each in _table("numbers").items() if each != number})
    if lose:
        raise ConnectionError("gone")
