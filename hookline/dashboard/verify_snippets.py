"""How a receiver verifies what we sent, in a few languages: with nothing but their standard libraries. Pure; the tests run them.

Secret and URL are the customer's own texts: they come in as literals of the language, never as they are.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from hookline.model import Scheme


class Snippet(Struct, frozen=True, kw_only=True):
    name: str
    text: str


class _Way(Struct, frozen=True, kw_only=True):
    """What differs between the schemes."""

    id_header: str
    python: str
    node: str
    openssl: str  # makes `content` and `$given`
    send: str  # of a signed request
    timed: bool = True  # it has a timestamp


def snippets(scheme: Scheme, *, ed25519: bool, key: str | None, url: str) -> list[Snippet]:
    """`key` of None: it is not shown, and a placeholder stands where it belongs."""
    if ed25519:
        texts = {"Python": _PYTHON_ED25519, "Node": _NODE_ED25519, "openssl": _SHELL_ED25519}
        return _filled(texts, key or "whpk_...", url, {"P": "svix" if scheme == Scheme.SVIX else "webhook"})
    way = _WAYS[scheme]
    texts = {
        "Python": _PYTHON.replace("@READ@", way.python).replace("@AGE@", _PYTHON_AGE if way.timed else ""),
        "Node": _NODE.replace("@READ@", way.node).replace("@AGE@", _NODE_AGE if way.timed else ""),
        "openssl": _SHELL.replace("@READ@", way.openssl),
        "curl": _SEND.replace("@READ@", way.send),
    }
    dotted = scheme in (Scheme.STANDARD, Scheme.SVIX)
    words = {
        "ID": way.id_header,
        "P": way.id_header.removesuffix("-id"),
        "PYKEY": 'base64.b64decode(SECRET.removeprefix("whsec_"))' if dotted else "SECRET.encode()",
        "JSKEY": 'Buffer.from(SECRET.replace(/^whsec_/, ""), "base64")' if dotted else "SECRET",
        "SHKEY": _SHELL_BASE64 if dotted else _SHELL_TEXT,
        "ENCODED": "openssl base64 -A" if dotted else _SHELL_HEX,
    }
    return _filled(texts, key or ("whsec_..." if dotted else "..."), url, words)


def _filled(texts: Mapping[str, str], key: str, url: str, words: Mapping[str, str]) -> list[Snippet]:
    """In one pass over what is ours: nothing in a secret or a URL is taken for one of our marks."""
    found = []
    for name, text in texts.items():
        ours = _mark.sub(lambda mark: words.get(mark[1], mark[0]), text)
        shell = name in ("openssl", "curl")
        own = {"SECRET": shlex.quote(key) if shell else json.dumps(key), "URL": shlex.quote(url)}
        filled = _mark.sub(lambda mark, own=own: own.get(mark[1], mark[0]), ours)  # type: ignore[misc]
        found.append(Snippet(name=name, text=filled.strip() + "\n"))
    return found


_mark = re.compile("@([A-Z]+)@")

# ── Python ────────────────────────────────────────────────────────────────────────────────────────────────────────

_PYTHON = '''
import base64
import hmac
import time

SECRET = @SECRET@


def verify(headers, body):
    """`headers` by their names in lower case, `body` as the bytes that came. Returns the id: the same on every copy."""
@READ@
@AGE@    expected = hmac.digest(@PYKEY@, content, "sha256")
    if not any([hmac.compare_digest(expected, each) for each in given]):
        raise ValueError("not signed by us: answer 401")
    return headers["@ID@"]
'''

_PYTHON_AGE = """    if abs(time.time() - int(sent_at)) > 300:
        raise ValueError("more than five minutes old: answer 401")
"""

_PYTHON_ED25519 = '''
import base64
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY = Ed25519PublicKey.from_public_bytes(base64.b64decode(@SECRET@.removeprefix("whpk_")))


def verify(headers, body):
    """`headers` by their names in lower case, `body` as the bytes that came. Returns the id: the same on every copy."""
    event_id, sent_at = headers["@P@-id"], headers["@P@-timestamp"]
    if abs(time.time() - int(sent_at)) > 300:
        raise ValueError("more than five minutes old: answer 401")
    content = f"{event_id}.{sent_at}.".encode() + body
    for each in headers["@P@-signature"].split():
        version, _, text = each.partition(",")
        if version == "v1a":
            try:
                KEY.verify(base64.b64decode(text), content)
                return event_id
            except InvalidSignature:
                pass
    raise ValueError("not signed by us: answer 401")
'''

# ── Node ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_NODE = """
import { createHmac, timingSafeEqual } from "node:crypto";

const SECRET = @SECRET@;

// `headers` by their names in lower case, `body` a Buffer of the bytes that came. Returns the id: the same on every copy.
export function verify(headers, body) {
@READ@
@AGE@  const expected = createHmac("sha256", @JSKEY@).update(start).update(body).digest();
  if (!given.some((each) => each.length === expected.length && timingSafeEqual(each, expected))) {
    throw new Error("not signed by us: answer 401");
  }
  return headers["@ID@"];
}
"""

_NODE_AGE = """  if (!(Math.abs(Date.now() / 1000 - Number(sentAt)) <= 300)) {
    throw new Error("more than five minutes old: answer 401");
  }
"""

_NODE_ED25519 = """
import { createPublicKey, verify as check } from "node:crypto";

const raw = Buffer.from(@SECRET@.replace(/^whpk_/, ""), "base64");
const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
const KEY = createPublicKey({ key: der, format: "der", type: "spki" });

// `headers` by their names in lower case, `body` a Buffer of the bytes that came. Returns the id: the same on every copy.
export function verify(headers, body) {
  const id = headers["@P@-id"], sentAt = headers["@P@-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(sentAt)) <= 300)) {
    throw new Error("more than five minutes old: answer 401");
  }
  const content = Buffer.concat([Buffer.from(`${id}.${sentAt}.`), body]);
  const signatures = headers["@P@-signature"].split(" ").filter((each) => each.startsWith("v1a,"));
  if (!signatures.some((each) => check(null, content, KEY, Buffer.from(each.slice(4), "base64")))) {
    throw new Error("not signed by us: answer 401");
  }
  return id;
}
"""

# ── shell ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_SHELL_BASE64 = """$(printf %s "${secret#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')"""
_SHELL_TEXT = """$(printf %s "$secret" | od -An -v -tx1 | tr -d ' \\n')"""
_SHELL_HEX = "od -An -v -tx1 | tr -d ' \\n'"

_SHELL = """
secret=@SECRET@
@READ@
key=@SHKEY@
expected=$(content | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | @ENCODED@)
for each in $given; do
  if [ "$each" = "$expected" ]; then
    echo "signed by us"
    exit 0
  fi
done
echo "not signed by us"
exit 1
"""

_SHELL_ED25519 = r"""
# sh verify.sh <@P@-id> <@P@-timestamp> <@P@-signature> <file with the body as it came>
key=@SECRET@
id=$1 timestamp=$2 signatures=$3 body=$4
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
{ printf '\060\052\060\005\006\003\053\145\160\003\041\000'; printf %s "${key#whpk_}" | openssl base64 -d -A; } >"$work/key"
{ printf '%s.%s.' "$id" "$timestamp"; cat "$body"; } >"$work/content"
for each in $signatures; do
  printf %s "${each#v1a,}" | openssl base64 -d -A >"$work/signature"
  if openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key" -rawin -in "$work/content" \
      -sigfile "$work/signature" >"$work/said" 2>&1; then
    echo "signed by us"
    exit 0
  fi
done
echo "not signed by us"
exit 1
"""

_SEND = """
# A request to your own server that is signed as ours are.
secret=@SECRET@
url=@URL@
body='{"hello":"world"}'
id=msg_test timestamp=$(date +%s)
key=@SHKEY@
sign() { openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | @ENCODED@; }
@READ@
"""

_CURL = """curl --globoff --include "$url" \\
  -H 'content-type: application/json' -H "@ID@: $id" \\
  %s --data-binary "$body\""""

# ── what differs ──────────────────────────────────────────────────────────────────────────────────────────────────

_DOTTED = _Way(
    id_header="webhook-id",
    python="""    sent_at = headers["@P@-timestamp"]
    content = f"{headers['@P@-id']}.{sent_at}.".encode() + body
    given = [base64.b64decode(each[3:]) for each in headers["@P@-signature"].split() if each.startswith("v1,")]""",
    node="""  const sentAt = headers["@P@-timestamp"], start = `${headers["@P@-id"]}.${sentAt}.`;
  const signatures = headers["@P@-signature"].split(" ").filter((each) => each.startsWith("v1,"));
  const given = signatures.map((each) => Buffer.from(each.slice(3), "base64"));""",
    openssl="""# sh verify.sh <@P@-id> <@P@-timestamp> <@P@-signature> <file with the body as it came>
id=$1 timestamp=$2 body=$4
given=$(printf %s "$3" | tr ' ' '\\n' | sed -n 's/^v1,//p')
content() { printf '%s.%s.' "$id" "$timestamp"; cat "$body"; }""",
    send="""signature=$(printf '%s.%s.%s' "$id" "$timestamp" "$body" | sign)
"""
    + _CURL % '-H "@P@-timestamp: $timestamp" -H "@P@-signature: v1,$signature"',
)

_WAYS = {
    Scheme.STANDARD: _DOTTED,
    Scheme.SVIX: replace(_DOTTED, id_header="svix-id"),
    Scheme.HEX: _Way(
        id_header="webhook-id",
        python="""    sent_at = headers["webhook-timestamp"]
    content = f"{sent_at}.".encode() + body
    given = [bytes.fromhex(each[3:]) for each in headers["webhook-signature"].split(",") if each.startswith("v1=")]""",
        node="""  const sentAt = headers["webhook-timestamp"], start = `${sentAt}.`;
  const signatures = headers["webhook-signature"].split(",").filter((each) => each.startsWith("v1="));
  const given = signatures.map((each) => Buffer.from(each.slice(3), "hex"));""",
        openssl="""# sh verify.sh <webhook-timestamp> <webhook-signature> <file with the body as it came>
timestamp=$1 body=$3
given=$(printf %s "$2" | tr ',' '\\n' | sed -n 's/^v1=//p')
content() { printf '%s.' "$timestamp"; cat "$body"; }""",
        send="""signature=$(printf '%s.%s' "$timestamp" "$body" | sign)
"""
        + _CURL % '-H "webhook-timestamp: $timestamp" -H "webhook-signature: v1=$signature"',
    ),
    Scheme.STRIPE: _Way(
        id_header="webhook-id",
        python="""    fields = [each.partition("=")[::2] for each in headers["stripe-signature"].split(",")]
    sent_at = dict(fields)["t"]
    content = f"{sent_at}.".encode() + body
    given = [bytes.fromhex(value) for name, value in fields if name == "v1"]""",
        node="""  const fields = headers["stripe-signature"].split(",").map((each) => each.split("="));
  const sentAt = Object.fromEntries(fields).t, start = `${sentAt}.`;
  const given = fields.filter(([name]) => name === "v1").map(([, value]) => Buffer.from(value, "hex"));""",
        openssl="""# sh verify.sh <Stripe-Signature> <file with the body as it came>
body=$2
timestamp=$(printf %s "$1" | tr ',' '\\n' | sed -n 's/^t=//p')
given=$(printf %s "$1" | tr ',' '\\n' | sed -n 's/^v1=//p')
content() { printf '%s.' "$timestamp"; cat "$body"; }""",
        send="""signature=$(printf '%s.%s' "$timestamp" "$body" | sign)
"""
        + _CURL % '-H "Stripe-Signature: t=$timestamp,v1=$signature"',
    ),
    Scheme.GITHUB: _Way(
        id_header="webhook-id",
        timed=False,
        python="""    content = body
    given = [bytes.fromhex(headers["x-hub-signature-256"].removeprefix("sha256="))]""",
        node="""  const start = "";
  const given = [Buffer.from(headers["x-hub-signature-256"].replace(/^sha256=/, ""), "hex")];""",
        openssl="""# sh verify.sh <X-Hub-Signature-256> <file with the body as it came>
body=$2
given=${1#sha256=}
content() { cat "$body"; }""",
        send="""signature=$(printf %s "$body" | sign)
"""
        + _CURL % '-H "X-GitHub-Delivery: $id" -H "X-Hub-Signature-256: sha256=$signature"',
    ),
}
