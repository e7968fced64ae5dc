"""Loading authors' files: whatever they do, a person reads what went wrong, and where."""

import sys
from pathlib import Path

import pytest

from saga_mcp.config import ConfigInvalid, load_config

GOOD = "from saga_tools import ToolRegistry\nregistry = ToolRegistry()\n"
TABLE = '[python.shop]\npath = "shop.py:registry"\n'


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def problem(folder: Path, code: str, toml: str = TABLE) -> tuple[str, str]:
    (folder / "shop.py").write_text(code, encoding="utf-8")
    path = folder / "saga.toml"
    path.write_text(toml, encoding="utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})
    (found,) = caught.value.problems
    assert "Traceback" not in str(caught.value)
    return found.key, found.message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("\ndef f(:\n", "SyntaxError: invalid syntax (shop.py:2)", id="syntax"),
        pytest.param("\nraise ValueError('no')\n", "ValueError: no (shop.py:2)", id="error"),
        pytest.param("import sys\nsys.exit(3)\n", "SystemExit: 3 (shop.py:2)", id="exit"),
        pytest.param(
            "import not_there_at_all\n",
            "ModuleNotFoundError: No module named 'not_there_at_all'; install it where saga-mcp runs (shop.py:1)",
            id="import",
        ),
        pytest.param("import json\n\njson.loads('{')\n", "JSONDecodeError: ", id="raised-deeper"),
        pytest.param("x = 1\n", "it holds no `registry`; it holds no ToolRegistry at all", id="no-registry"),
        pytest.param(
            "registry = 1\n", "`registry` is no ToolRegistry; it holds no ToolRegistry at all", id="no-such-type"
        ),
        pytest.param(
            GOOD.replace("registry =", "tools ="), "it holds no `registry`; its registries: tools", id="other-name"
        ),
    ],
)
def test_code_that_cannot_be_loaded_says_why_and_where(tmp_path: Path, code: str, message: str) -> None:
    key, found = problem(tmp_path, code)
    assert key == "python.shop.path"
    assert found.startswith(message)
    assert found.endswith(".py:3)") or message != "JSONDecodeError: "


def test_what_is_wrong_with_a_registry_is_told_with_its_place(tmp_path: Path) -> None:
    code = GOOD + "\n@registry.tool\ndef pay() -> None: ...\n"
    key, message = problem(tmp_path, code)
    assert key == "python.shop"
    assert message.startswith("pay: nothing undoes it; add `@registry.undoes(pay)`")
    assert message.endswith("(shop.py:4)")


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ('path = "gone.py:registry"', ".path", "there is no file "),
        ('path = "shop.py"', ".path", "name one registry in it, as in FILE.py:registry, or list functions"),
        ('path = "shop.py:registry"\nfunctions = ["f"]', ".path", "name one registry in it"),
        ('path = "shop.py"\nfunctions = ["registr"]', ".functions[0]", "it holds no function `registr`"),
        ('path = "shop.py:r"\nmodule = "m:r"', "", "give either path or module"),
        (
            'module = "not_there_at_all:registry"',
            ".module",
            "ModuleNotFoundError: No module named 'not_there_at_all'; install it where saga-mcp runs",
        ),
    ],
)
def test_a_place_that_holds_no_tools_is_a_problem(tmp_path: Path, table: str, key: str, message: str) -> None:
    found_key, found = problem(tmp_path, GOOD, f"[python.shop]\n{table}\n")
    assert found_key == f"python.shop{key}"
    assert found.startswith(message)


def test_a_registrys_name_holds_no_dot(tmp_path: Path) -> None:
    assert problem(tmp_path, GOOD, '[python."my.shop"]\npath = "shop.py:registry"\n') == (
        'python."my.shop"',
        "its name cannot hold a dot",
    )


def test_a_file_named_like_an_installed_module_neither_hides_it_nor_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(GOOD + "import json\nassert json.loads('1') == 1\n", encoding="utf-8")
    path = tmp_path / "saga.toml"
    path.write_text('[python.j]\npath = "json.py:registry"\n', encoding="utf-8")
    assert [registry.name for registry in load_config(path, {}).registries] == ["j"]
    assert str(tmp_path) not in str(sys.modules["json"].__file__)


def test_a_file_imports_its_siblings(tmp_path: Path) -> None:
    (tmp_path / "sibling_of_shop.py").write_text("VALUE = 1\n", encoding="utf-8")
    (tmp_path / "shop.py").write_text(GOOD + "from sibling_of_shop import VALUE\n", encoding="utf-8")
    path = tmp_path / "saga.toml"
    path.write_text(TABLE, encoding="utf-8")
    assert len(load_config(path, {}).registries) == 1
    assert sys.path[-1] == str(tmp_path)


def test_two_tables_of_one_file_share_its_module(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(GOOD + "other = ToolRegistry()\n", encoding="utf-8")
    path = tmp_path / "saga.toml"
    path.write_text(TABLE + '[python.other]\npath = "shop.py:other"\n', encoding="utf-8")
    first, second = load_config(path, {}).registries
    assert first.source is not second.source
    again = load_config(path, {}).registries
    assert again[0].source is first.source


def test_an_interrupt_while_code_is_loaded_is_no_problem_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    path = tmp_path / "saga.toml"
    path.write_text(TABLE, encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        load_config(path, {})


def test_a_file_that_is_not_python_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "shop.txt").write_text(GOOD, encoding="utf-8")
    assert problem(tmp_path, GOOD, '[python.shop]\npath = "shop.txt:registry"\n') == (
        "python.shop.path",
        "shop.txt is not a Python file",
    )


def test_a_module_that_raises_says_where(tmp_path: Path) -> None:
    (tmp_path / "module_that_raises.py").write_text("\nraise ValueError('no')\n", encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    found = problem(tmp_path, GOOD, '[python.shop]\nmodule = "module_that_raises:registry"\n')
    assert found == ("python.shop.module", "ValueError: no (module_that_raises.py:2)")


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ('resource="card:${args.crad}"', "resource names `crad`, which is no parameter; use card"),
        ('resource="card:${args.card}", secret=["card"]', "resource names `card`, which is secret"),
        ('resource="${args}", secret=["card"]', "resource names `card`, which is secret"),
        ('resource="card:${result.id}"', "resource: unknown variable result"),
        ('resource="card:${args.card"', "resource: "),
    ],
)
def test_a_resource_of_code_that_cannot_hold_is_told_before_anything_is_served(
    tmp_path: Path, traits: str, message: str
) -> None:
    code = f'{GOOD}\n@registry.tool(kind="pivot", {traits})\ndef pay(card: str) -> None: ...\n'
    key, found = problem(tmp_path, code)
    assert key == "python.shop"
    assert found.startswith(f"pay: {message}")


def test_what_the_config_calls_secret_may_not_be_in_a_resource_of_code(tmp_path: Path) -> None:
    code = f'{GOOD}\n@registry.tool(kind="pivot", resource="card:${{args.card}}")\ndef pay(card: str) -> None: ...\n'
    key, message = problem(tmp_path, code, TABLE + '[tools."shop.pay"]\nsecret = ["card"]\n')
    assert key == 'tools."shop.pay".secret'
    assert message.startswith("card is secret, and whoever is refused what a saga holds is told what that is")
