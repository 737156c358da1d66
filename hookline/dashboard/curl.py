"""Turns a request into a curl command for bash, zsh and any POSIX shell.

The command contains only printable characters and line feeds. A terminal would interpret other characters during the
paste: a tab completes a word, and an escape can end the paste. If a quoted argument cannot contain the
body (see `_quotable`), `printf` writes the body into a pipe.
"""

from __future__ import annotations

from collections.abc import Sequence

# Maximum bytes of a body that is an argument of curl. Linux allows arguments of 128 KiB. The shell's own `printf` has
# no limit.
MAX_ARGUMENT = 64 * 1024

# `--globoff` stops curl from expanding brackets and braces in the URL. With `--data-raw`, curl does not read a body
# that begins with @ as a file name.
_CURL = "curl --globoff --request POST"
_NEXT = " \\\n  "


def command(url: str, headers: Sequence[str], body: bytes) -> str:
    """Return the command. `headers` are whole header lines."""
    text = _quotable(body)
    if text is None:
        return f"printf {_format(body)} |{_NEXT}{_head(url, headers)}{_NEXT}--data-binary @-"
    return f"{_head(url, headers)}{_NEXT}--data-raw {quoted(text)}"


def command_with_file(url: str, headers: Sequence[str], name: str) -> str:
    """Return the command for a body that was saved as a file in the current directory."""
    return f"{_head(url, headers)}{_NEXT}--data-binary {quoted(f'@./{name}')}"


def _head(url: str, headers: Sequence[str]) -> str:
    lines = [f"--url {_argument(url)}", *(f"--header {_argument(line)}" for line in headers)]
    return _NEXT.join([_CURL, *lines])


def quoted(text: str) -> str:
    """Quote a text as one word of the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _argument(text: str) -> str:
    """Quote a header or URL. Replace unprintable characters with U+FFFD, and also a leading @, because curl would read
    the rest as a file name."""
    safe = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return quoted(f"\ufffd{safe[1:]}" if safe.startswith("@") else safe)


def _quotable(body: bytes) -> str | None:
    """Return the body as text, or None if a quoted argument cannot contain it."""
    if len(body) > MAX_ARGUMENT:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if "\n" in text and "!" in text:  # older bash versions expand `!` in the second line of a quoted text
        return None
    return text if text.replace("\n", "").isprintable() else None


def _format(body: bytes) -> str:
    """Return the format for `printf`. A leading `-` is escaped, because it would begin an option."""
    found = "".join(_BYTES[byte] for byte in body)
    return f"'\\055{found[1:]}'" if found.startswith("-") else f"'{found}'"


_PLAIN = set(range(0x20, 0x7F)) - set(b"'\\%!")
_BYTES = [chr(byte) if byte in _PLAIN else "%%" if byte == ord("%") else f"\\{byte:03o}" for byte in range(256)]
