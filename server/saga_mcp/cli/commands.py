"""The command line as Typer sees it: every command but a running `serve`, and what each kind of failure exits with."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated, cast

import typer

from saga_mcp.cli import (
    act,
    adopt,
    answer,
    attempt,
    check,
    doctor,
    driver,
    export,
    look,
    pausing,
    prove,
    prune,
    recover,
    revert,
    setup,
    show,
    streams,
    token,
    verify,
    worker,
)
from saga_mcp.cli.options import ConfigOption, JsonOption
from saga_mcp.cli.output import CommandFailed, Exit, Output, report
from saga_mcp.cli.refused import for_people
from saga_mcp.domain.errors import DriverUnavailable, LogError, Refused
from saga_mcp.edge.logging import configure_logging
from saga_mcp.engine.port import SagaIdMistyped

_INTERRUPTED = 130
_PIPE_CLOSED = 141
"""What a shell says of a process that ended by SIGPIPE."""

_UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""Typer ships Click under a private name; this is its `UsageError`."""

cli = typer.Typer(
    name="saga-mcp",
    help="An MCP server that makes an agent's tool calls undoable. Alone: what is going on and what to do next.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(is_given: bool) -> None:  # noqa: FBT001 - Typer's signature
    if is_given:
        Output(as_json=False).text(f"saga-mcp {version('saga-mcp')}")
        raise typer.Exit


@cli.callback(invoke_without_command=True)
def _alone(
    context: typer.Context,
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    del show_version  # its callback has printed it
    if context.invoked_subcommand is None:
        look.status_page(config, as_json=as_json)


@cli.command("serve", short_help="Serve MCP over stdio, or with --http many callers.")
def _serve_help(
    *,
    config: ConfigOption = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="[HOST:PORT]",
            help="Serve over HTTP, at HOST:PORT/mcp; default: 127.0.0.1:8000. Other machines only with [auth].",
        ),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")] = False,
    inject: Annotated[
        list[str] | None,
        typer.Option(
            "--inject",
            metavar="FAILURE",
            help="Make real calls fail, to see what their undos do: step=TOOL:before|after|hang|crash[:once|:RATE]. "
            "Every reply says so.",
        ),
    ] = None,
) -> None:
    """Serve one MCP client over stdin and stdout; started by the client, not by hand. Logs go to stderr.

    With --http it is a server of its own, for many callers and clients, until it is told to stop (docs/http.md).

    Example, in the config of a client: {"command": "saga-mcp", "args": ["serve", "--config", "/path/to/saga.toml"]}
    """
    # Never runs: `main` takes a running `serve` out before Typer is imported. It stands here to be found and explained.


cli.command("check", short_help="Check the config and the tools; serve nothing.")(check.check)
cli.command("try", short_help="Show what a call would come to; make no call.")(attempt.attempt)
cli.command("prove", short_help="Rehearse pairs on a sandbox, with failures.")(prove.prove)
cli.command("init", short_help="Write a starter saga.toml and tools.py.")(setup.init)
cli.command("adopt")(adopt.adopt)
cli.command("demo", short_help="Run two small sagas in a temporary folder.")(setup.demo)
cli.command("list")(look.list_sagas)
cli.command("show")(show.show)
cli.command("attention")(look.attention)
cli.command("commit")(act.commit)
cli.command("abort")(act.abort)
cli.command("revert", short_help="Undo a committed saga, by one of its own.")(revert.revert)
cli.command("retry", short_help="Let what is stuck try again, with the same key.")(act.retry)
cli.command("resolve", short_help="Say what you found out or did about an item.")(act.resolve)
cli.command("exempt")(act.exempt)
cli.command("approve", short_help="Allow a call that an agent asked for.")(answer.approve)
cli.command("reject", short_help="Forbid a call that an agent asked for.")(answer.reject)
cli.command("pause", short_help="Stop all calls of a tool.")(pausing.pause)
cli.command("resume", short_help="Let a paused tool be called again.")(pausing.resume)
cli.command("probe", short_help="Ask once whether what is in doubt happened.")(recover.probe)
cli.command("recover", short_help="Do what is due without serving, then end.")(recover.recover)
cli.command("doctor", short_help="Look for what could keep sagas from being driven.")(doctor.doctor)
cli.command("export", short_help="Print every event of a saga, one JSON object a line.")(export.export)
cli.command("verify", short_help="Check that the saga log is as it was written.")(verify.verify)
cli.command("prune", short_help="Remove sagas that ended long ago, and values not needed any more.")(prune.prune)
cli.command("driver", short_help="Show or switch what brings sagas to rest.")(driver.driver)
cli.command("worker", short_help="Drive sagas when Temporal says so.")(worker.worker)
cli.command("token", short_help="Make a token for a caller over HTTP.")(token.token)
cli.command("schema", short_help="Print the JSON Schema of saga.toml.")(export.schema)


def run(arguments: list[str]) -> int:
    """Run one command.

    Returns:
        The exit code (see `Exit`); 130 after Ctrl-C, 141 where the reader of stdout is gone.
    """
    as_json = "--json" in arguments
    streams.make_usable()
    configure_logging("warning", json=False, stream=sys.stderr)
    try:
        code = _run(arguments, as_json=as_json)
        streams.flush()
    except (BrokenPipeError, SystemExit):  # Typer ends the process by itself for this, and for nothing else
        streams.give_up()
        return _PIPE_CLOSED
    except streams.OutputLost as error:
        streams.give_up()
        report(CommandFailed(str(error)), as_json=False)
        return Exit.FAILED
    return code


def _run(arguments: list[str], *, as_json: bool) -> int:
    try:
        code: object = cli(args=arguments, prog_name="saga-mcp", standalone_mode=False)
    except CommandFailed as error:
        report(error, as_json=as_json)
        return error.exit_code
    except (Refused, LogError, DriverUnavailable, SagaIdMistyped) as error:
        code_name = str(
            getattr(error, "code", "invalid_arguments" if isinstance(error, SagaIdMistyped) else "log_error")
        )
        says = for_people(error) if isinstance(error, Refused) else str(error)
        report(CommandFailed(says, code=code_name), as_json=as_json)
        return Exit.FAILED
    except _UsageError as error:
        report(CommandFailed(_usage(error), code="usage"), as_json=as_json)
        return Exit.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except (BrokenPipeError, streams.OutputLost):
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence of a program that others run
        traceback.print_exc(file=sys.stderr)
        report(
            CommandFailed(f"This is a bug in saga-mcp: {type(error).__name__}.", code="internal_error"), as_json=as_json
        )
        return Exit.FAILED
    if code == _INTERRUPTED:  # Typer turns Ctrl-C into this code by itself
        message = "Interrupted. What was recorded stays recorded: see `saga-mcp list`."
        report(CommandFailed(message, code="interrupted"), as_json=as_json)
    return code if isinstance(code, int) else Exit.DONE


def _usage(error: Exception) -> str:
    """What is wrong with the command line, and where it is explained."""
    say = getattr(error, "format_message", None)
    message = str(say()) if callable(say) else str(error)
    command = getattr(getattr(error, "ctx", None), "command_path", "saga-mcp")
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See `{command} --help`."
