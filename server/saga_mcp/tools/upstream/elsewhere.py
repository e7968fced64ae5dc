"""Which programs only lead to a server that lives elsewhere, so that their end is not its end. Pure.

A container's client, a remote shell and a proxy are killed in a moment, and what they lead to goes on with its call.
"""

from __future__ import annotations

import re
import sys

from saga_mcp.tools.upstream.declared import Endpoint, Program, Scope

_LEADS_AWAY = frozenset(
    {
        *(
            "docker",
            "docker-compose",
            "podman",
            "podman-compose",
            "nerdctl",
            "finch",
            "lima",
            "limactl",
            "lxc",
            "incus",
        ),
        *("machinectl", "systemd-run", "flatpak", "flatpak-spawn", "toolbox", "distrobox", "vagrant", "multipass"),
        *("devcontainer", "wsl", "ssh", "autossh", "mosh", "plink", "tsh", "gcloud", "kubectl", "oc", "fly", "flyctl"),
        *("mcp-remote", "mcp-proxy", "supergateway", "nc", "ncat", "netcat", "socat", "telnet", "websocat", "tmux"),
    }
)
"""By base name, without a version or ending."""
_STARTS_ANOTHER = frozenset(
    {
        *(
            "npx",
            "npm",
            "pnpm",
            "pnpx",
            "yarn",
            "bun",
            "bunx",
            "deno",
            "node",
            "uv",
            "uvx",
            "pipx",
            "python",
            "python3",
        ),
        *("sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh", "env", "sudo", "doas", "nice", "nohup"),
        *("timeout", "setsid", "stdbuf", "xargs", "dotenv", "direnv", "mise", "op"),
    }
)
"""What it starts is one of its arguments, or stands in one."""
_ENDING = re.compile(r"\.(exe|cmd|bat|ps1|js|mjs|py|sh)$")


def outlives_us(place: Program | Endpoint, scope: Scope) -> bool:
    """Whether a call may go on where its connection, its process and we have ended.

    Args:
        place: Where the upstream is.
        scope: A place that others share is not this process's child.
    """
    if isinstance(place, Endpoint) or scope == "shared" or leads_away(place):
        return True
    return sys.platform != "linux"  # elsewhere nobody can find all that a process has left behind


def leads_away(program: Program) -> bool:
    """Whether it only leads to a server that lives elsewhere."""
    command = _base(program.command)
    if command in _LEADS_AWAY:
        return True
    if command not in _STARTS_ANOTHER:
        return False
    words = [word for arg in program.args for word in arg.split()]
    # Arguments with a folder in them are mostly data, but for what lies in the package of a proxy.
    return any(_base(word) in _LEADS_AWAY for word in words if "/" not in word and "\\" not in word) or any(
        part in {"mcp-remote", "mcp-proxy", "supergateway"} for word in words for part in re.split(r"[/\\]", word)
    )


def _base(word: str) -> str:
    name = re.split(r"[/\\]", word)[-1].lower()
    return _ENDING.sub("", name.partition("@")[0])
