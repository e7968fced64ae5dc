"""Take the process's standard streams for the protocol, before anything can print.

On stdio the client reads every byte of file descriptor 1 as a message, and one stray `print` breaks the connection for
good. So this is the first thing the process does: it imports nothing but the standard library, because what is imported
later (user tools above all) may print. The streams are never given back: what Python, C libraries or `atexit` flush
while the process ends must miss the wire too, which is why the SDK's own diversion, which lasts as long as its
`stdio_server()` context, is not enough.
"""

import os
import select
import socket
import stat
import sys
from dataclasses import dataclass

if sys.platform != "win32":
    import fcntl

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class WireStreams:
    """The real stdin and stdout, as descriptors nobody else in the process knows and no child inherits."""

    stdin_fd: int
    stdout_fd: int
    stdout_socket: socket.socket | None = None
    """The same stream as `stdout_fd`, where it is a socket."""

    def read(self) -> bytes:
        """Return the client's next bytes, at most 64 KiB; empty at end of file or when the stream broke. Blocks."""
        while (chunk := self.read_now()) is None:
            _wait(self.stdin_fd, reading=True)
        return chunk

    def read_now(self) -> bytes | None:
        """Return the next bytes as `read` does; None where there are none yet and the stream does not block."""
        try:
            return os.read(self.stdin_fd, _CHUNK_BYTES)
        except BlockingIOError:  # whoever shares the stream with us may have made it so
            return None
        except OSError:
            return b""

    @property
    def waits_to_read(self) -> bool:
        """Whether the event loop can tell when there is something to read, so that `read` does not block then."""
        return sys.platform != "win32" and _sort_of(self.stdin_fd) in {stat.S_IFIFO, stat.S_IFSOCK}

    def write(self, data: bytes) -> None:
        """Write all of `data`. Blocks while the client does not read.

        Raises:
            OSError: the client closed its end.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.stdout_fd, rest) :]
            except BlockingIOError:
                _wait(self.stdout_fd, reading=False)

    def write_now(self, data: bytes) -> int:
        """Write what can be written without waiting, and return how many bytes that was; often all, maybe none.

        Raises:
            OSError: the client closed its end.
        """
        if sys.platform == "win32":
            return 0
        try:
            if self.stdout_socket is not None:
                return self.stdout_socket.send(data, socket.MSG_DONTWAIT)
            # POSIX: a pipe with room for so much takes the whole at once.
            fits = len(data) <= select.PIPE_BUF and _sort_of(self.stdout_fd) == stat.S_IFIFO
            return os.write(self.stdout_fd, data) if fits and _wait(self.stdout_fd, reading=False, at_most_ms=0) else 0
        except BlockingIOError:
            return 0


def _wait(fd: int, *, reading: bool, at_most_ms: int | None = None) -> bool:
    """Wait until `fd` can be read or written, or is broken; whether it is."""
    ready = select.poll()
    ready.register(fd, select.POLLIN if reading else select.POLLOUT)
    return bool(ready.poll(at_most_ms))


def _as_socket(fd: int) -> socket.socket | None:
    """The stream as a socket, which is what hosts written for Node use in place of pipes."""
    if sys.platform == "win32" or _sort_of(fd) != stat.S_IFSOCK:
        return None
    # Made before any tool can set a default time limit for sockets, which would make the client's stream one that does
    # not block.
    stream = socket.socket(fileno=_private_copy(fd))
    stream.settimeout(None)
    return stream


def _sort_of(fd: int) -> int:
    return stat.S_IFMT(os.fstat(fd).st_mode)


def take_over_stdout() -> WireStreams:
    """Keep the real stdin and stdout for the protocol; afterwards fd 0 is empty and fd 1 is stderr.

    Call once, before anything else is imported. `print`, `os.write(1)`, C libraries and child processes then reach
    stderr, and children read end of file instead of the client's messages.

    Raises:
        OSError: stdin or stdout is closed, so there is nobody to serve.
    """
    wire = WireStreams(stdin_fd=_private_copy(0), stdout_fd=_private_copy(1), stdout_socket=_as_socket(1))
    _occupy_stderr()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if sys.platform == "win32":
        # dup2 moves the C runtime's descriptor only; children inherit the Win32 handle. Imported here because the SDK
        # may print too, and by now it cannot reach the wire.
        from mcp.os.win32.utilities import rebind_std_handle_to_fd  # noqa: PLC0415 - see above

        rebind_std_handle_to_fd(0)
        rebind_std_handle_to_fd(1)
    # A stream of its own: a tool that closes it must not close stderr.
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    return wire


def _private_copy(fd: int) -> int:
    """Return a copy of `fd` that children do not inherit and that is no standard descriptor."""
    if sys.platform == "win32":
        return os.dup(fd)
    # With fd 2 closed, plain dup would hand out 2, and what goes to stderr would go on the wire.
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _occupy_stderr() -> None:
    """Make sure stderr is open: a host may close it, and the next file opened (a database) would take its place."""
    try:
        os.fstat(2)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        if null > 2:  # noqa: PLR2004 - the descriptor of stderr
            os.close(null)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
