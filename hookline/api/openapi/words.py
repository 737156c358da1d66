"""What the description says of itself, its sections and its parameters."""

ABOUT = """\
Hookline accepts messages over HTTP and delivers them as webhooks, or tells you exactly why not and replays them.

Send a token with each request: `Authorization: Bearer ...`. A path takes an id or, where there is one, the caller's own
`uid`. Listings have `data`, `done`, `iterator` and `prevIterator`; give one of the last two back to go on or to go back.
Every POST may carry an `Idempotency-Key`: the same request with the same key is done once, and answered twice.

A body is JSON, whatever its content type says. Fields and parameters that do not exist are refused. Every answer has an
`x-request-id`, which the logs have too. `/app/` is `/app`.
"""

TAGS = {
    "application": "An application is one customer of yours: its endpoints and messages are kept apart from all others.",
    "event-type": "The catalogue of what may be sent, with JSON Schemas of the payloads where you have them.",
    "endpoint": "An endpoint is a URL of an application, with its secret, its filters, its limits and its policy.",
    "lane": "What governs an endpoint's open deliveries: circuit, throttle, pause.",
    "message": "A message is accepted once, and delivered to every endpoint that wants it.",
    "message-attempt": "Each HTTP request that was made for a delivery, with the receiver's answer.",
    "dead-letter": "Deliveries that gave up, with the reason. They can be replayed or resolved.",
    "statistics": "Counts of what was accepted, delivered and given up.",
    "background-task": "Work on many deliveries, and how far it is.",
    "operational-webhook": "Webhooks to yourself: what happens to endpoints and deliveries of all applications.",
    "alert": "What is wrong, or was: evaluated by Hookline itself.",
    "authentication": "Short-lived access for one application's own portal.",
    "api-key": "Keys with a scope, which can be revoked one by one.",
    "health": "Whether this process answers, and what it can be asked.",
}

PATH_PARAMETERS = {
    "app_id": "The application's id or uid.",
    "attempt_id": "The attempt's id.",
    "dead_letter_id": "The dead letter's id.",
    "endpoint_id": "The endpoint's id or uid.",
    "event_type_name": "The event type's name.",
    "key_id": "The key's id.",
    "msg_id": "The message's id, or the `eventId` it was given.",
    "task_id": "The task's id.",
}

# Where the parameter's own type does not say more.
QUERY_PARAMETERS = {
    "endpoint_id": "Only of this endpoint, by its id or uid.",
    "event_type": "Only of this event type.",
    "expunge": "Remove it for good, instead of archiving it.",
    "get_if_exists": "If there is one with this uid already, it is the answer, and nothing is changed.",
    "include_archived": "Archived ones too.",
    "iterator": "Where to go on: the answer's `iterator` or `prevIterator`.",
    "kind": "Only of this kind.",
    "limit": "How many at most.",
    "order": "By which end of the listing to begin.",
    "reason": "Only those that died for this reason.",
    "since": "From this instant on.",
    "state": "Only those in this state.",
    "status": "Only those with this status.",
    "status_code_class": "Only those that were answered so: 200 stands for 2xx, and so on.",
    "task": "Only of this kind, by the name that SDKs have for it.",
    "until": "Before this instant.",
    "with_content": "With the content, which may be large.",
}
