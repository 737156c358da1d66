"""The delivery contract and code that verifies signatures: everything that the author of a receiver must know.

The contract has its own page. The page of each endpoint shows it too, with code that verifies the signatures.
"""

from __future__ import annotations

from hookline.dashboard import components
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.verify_snippets import snippets
from hookline.model.endpoints import Endpoint, OnDeath, Ordering, Scheme
from hookline.model.policy import RetryPolicy
from hookline.rules.checks.text import lasting
from hookline.signing import PRIVATE_PREFIX
from hookline.web.html import Safe, join, tag

_TEXT_SCHEMES = (Scheme.HEX, Scheme.STRIPE, Scheme.GITHUB)


@get("/contract", portal=True)
async def show(context: PageContext) -> Page:
    words = "What you can rely on, and what your server must do. The page of each endpoint has code that verifies signatures."
    link = tag("p", context.anchor("Endpoints", "/endpoints"))
    return Page(title="The delivery contract", rail="endpoints", body=[tag("p", words), rules(context), link])


def rules(context: PageContext, found: Endpoint | None = None) -> Safe:
    """Show the rules of the delivery contract, the most important first. With `found`, show them for that endpoint."""
    services = context.services
    seconds = lasting(services.request_timeout)
    id_header = "svix-id" if found is not None and found.scheme == Scheme.SVIX else "webhook-id"
    contract = {
        "Answer 2xx": f"Within {seconds}, once you have stored the event. Do slow work afterwards. Any other answer is a "
        "failure.",
        "A stable id": f"Each event has one id (`{id_header}`), the same on every attempt and duplicate.",
        "Duplicates": "An event may arrive more than once. Store the ids that you have handled, and answer 2xx to "
        "duplicates.",
        "Order": _order(found),
        "Retries": _retries(found, services.retry),
        "Permanent failures": "A 4xx answer (other than 408, 425 and 429) is not retried: the event becomes a dead letter "
        "at once and can be replayed. A 410 also disables the endpoint. The header `Retry-After` is respected.",
        "Redirects": "Redirects are not followed. Use the URL that answers itself.",
        "Signature": "Verify the signature over the raw bytes of the body, before you parse it. Answer 401 if it does not "
        "match.",
    }
    return components.fields((name, components.with_code(words)) for name, words in contract.items())


def _order(found: Endpoint | None) -> str:
    none = "The order is not guaranteed: a later event may arrive first. Compare webhook-created-at, or fetch the current state."
    if found is None:
        return f"{none} Events with an ordering key arrive one at a time, in the order of their key."
    behind = "; events after a dead letter wait" if found.on_death == OnDeath.BLOCK else "; a dead letter is skipped"
    match found.ordering:
        case Ordering.NONE:
            return none
        case Ordering.KEY:
            return f"{none} Events with the same ordering key arrive one at a time, in order{behind}."
        case Ordering.FIFO:
            return f"Events arrive one at a time, in the order in which they were accepted{behind}."


def _retries(found: Endpoint | None, deployed: RetryPolicy) -> str:
    own = None if found is None else found.policy
    attempts = (own and own.max_attempts) or deployed.max_attempts
    age = (own and own.max_age) or deployed.max_age
    return (
        "No answer, 3xx, 408, 425, 429 and 5xx are retried at growing intervals: up to "
        f"{components.count(attempts, 'attempt')} in {lasting(age)}. Then the event becomes a dead letter and can be replayed. "
        "While an endpoint keeps failing, its events wait. They are sent slowly at first once it answers again."
    )


def section(context: PageContext, found: Endpoint, key: str | None = None) -> Safe:
    """Show how to verify requests to an endpoint. The snippets contain its secret if it was revealed."""
    ed25519 = bool(found.secrets) and found.secrets[0].key.startswith(PRIVATE_PREFIX)
    made = snippets(found.scheme, ed25519=ed25519, key=key, url=found.url)
    blocks = [
        tag("details", tag("summary", name), components.code(text, name=f"{name} snippet"), open=at == 0)
        for at, (name, text) in enumerate(made.items())
    ]
    hint = components.quiet("Reveal the secret above to see these snippets with the secret filled in.")
    where = hint if key is None and context.may_change else None
    summary = tag("summary", "The delivery contract")
    contract = tag("details", summary, rules(context, found), open=context.viewer.portal)
    return join(components.section("Verify requests", _weakness(found), where, *blocks, id_="verify"), contract)


def _weakness(found: Endpoint) -> Safe | None:
    if found.scheme not in _TEXT_SCHEMES:
        return None
    replay = " It does not sign a timestamp either, so an attacker can replay an old request."
    return components.quiet(f"This scheme does not sign the id.{replay if found.scheme == Scheme.GITHUB else ''}")
