"""A request as a command for bash, zsh and any POSIX shell. Pure.

Whatever the bytes are, the command has only printable characters and line ends: a terminal acts on others as it is pasted, a
tab completes, an escape ends the paste. What a quoted argument cannot carry comes from `printf` by a pipe, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = (
    64 * 1024
)  # bytes of an argument; Linux takes 128 KiB at most. What `printf` writes is no argument of a program

# `--globoff`: brackets and braces of a URL are themselves. `--data-raw`: a body that begins with @ names no file.
_CURL = "curl --globoff --request POST"
_NEXT = " \\\n  "


def command(url: str, headers: Sequence[str], body: bytes) -> str:
    """`headers` are whole lines."""
    text = _quotable(body)
    if text is None:
        return f"printf {_format(body)} |{_NEXT}{_head(url, headers)}{_NEXT}--data-binary @-"
    return f"{_head(url, headers)}{_NEXT}--data-raw {quoted(text)}"


def command_with_file(url: str, headers: Sequence[str], name: str) -> str:
    """Likewise, with a body that was kept in a file of this directory."""
    return f"{_head(url, headers)}{_NEXT}--data-binary {quoted(f'@./{name}')}"


def _head(url: str, headers: Sequence[str]) -> str:
    lines = [f"--url {_argument(url)}", *(f"--header {_argument(line)}" for line in headers)]
    return _NEXT.join([_CURL, *lines])


def quoted(text: str) -> str:
    """One word, of printable text and line ends."""
    return "'" + text.replace("'", "'\\''") + "'"


def _argument(text: str) -> str:
    """`-H @name` would read a file; no header and no URL begins so, and neither has a line end."""
    safe = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return quoted(f"\ufffd{safe[1:]}" if safe.startswith("@") else safe)


def _quotable(body: bytes) -> str | None:
    """None: it has something that a terminal or an argument does not pass on as it is."""
    if len(body) > LONGEST:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if "\n" in text and "!" in text:  # older releases of bash look for history in the second line of a quoted text
        return None
    return text if text.replace("\n", "").isprintable() else None


def _format(body: bytes) -> str:
    """The first argument of `printf`. A `-` in front would be an option."""
    found = "".join(_BYTES[byte] for byte in body)
    return f"'\\055{found[1:]}'" if found.startswith("-") else f"'{found}'"


_PLAIN = set(range(0x20, 0x7F)) - set(b"'\\%!")
_BYTES = [chr(byte) if byte in _PLAIN else "%%" if byte == ord("%") else f"\\{byte:03o}" for byte in range(256)]
