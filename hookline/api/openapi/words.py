"""Texts of the OpenAPI document: introduction, sections and parameters."""

ABOUT = """\
Hookline accepts messages over HTTP and delivers them as webhooks. It shows why a delivery failed, and can replay it.

Send a token with each request: `Authorization: Bearer ...`. A path accepts an id or, if you set one, your own `uid`.
Listings have `data`, `done`, `iterator` and `prevIterator`. Send one of the last two back to get the next or the
previous page. Every POST may have an `Idempotency-Key`: a request with the same key runs once, and duplicates get its
response.

A body is always read as JSON, regardless of its content type. Unknown fields and parameters are refused. Every
response has an `x-request-id`, which is also in the logs. A trailing slash is ignored: `/app/` is the same as `/app`.
"""

TAGS = {
    "application": "An application is one of your customers. Its endpoints and messages are separate from all others.",
    "event-type": "The catalogue of event types, with optional JSON Schemas of their payloads.",
    "endpoint": "An endpoint is a URL of an application, with its secret, filters, limits and retry policy.",
    "lane": "The delivery state of an endpoint: circuit, throttle, pause.",
    "statistics": "Counts of accepted messages, delivered messages and dead letters.",
    "message": "A message is accepted once and delivered to every endpoint whose filters match.",
    "message-attempt": "Each HTTP request of a delivery, with the response of the receiver.",
    "dead-letter": "Deliveries that failed permanently, with the reason. They can be replayed or resolved.",
    "background-task": "Long-running work on many deliveries, and its progress.",
    "api-key": "API keys. Each has a scope and can be revoked.",
    "authentication": "Short-lived access to the portal of one application.",
    "operational-webhook": "Webhooks to you, the operator, about endpoints and deliveries of all applications.",
    "alert": "Current and past problems that Hookline detected.",
    "health": "Checks whether this process answers, and the description of the API.",
}

PATH_PARAMETERS = {
    "app_id": "The application's id or uid.",
    "attempt_id": "The attempt's id.",
    "dead_letter_id": "The dead letter's id.",
    "endpoint_id": "The endpoint's id or uid.",
    "event_type_name": "The event type's name.",
    "key_id": "The key's id.",
    "msg_id": "The message's id, or its `eventId`.",
    "task_id": "The task's id.",
}

# Descriptions of parameters whose type has no description.
QUERY_PARAMETERS = {
    "endpoint_id": "Return only results of this endpoint (id or uid).",
    "event_type": "Return only results of this event type.",
    "expunge": "Delete it permanently instead of archiving it.",
    "get_if_exists": "If one with this uid exists, return it and change nothing.",
    "include_archived": "Include archived ones.",
    "iterator": "The position to continue from: `iterator` or `prevIterator` of the previous response.",
    "kind": "Return only results of this kind.",
    "limit": "Maximum number of results.",
    "order": "The order of the results.",
    "reason": "Return only dead letters with this reason.",
    "since": "Return only results at or after this time.",
    "state": "Return only results in this state.",
    "status": "Return only results with this status.",
    "status_code_class": "Return only attempts with this class of response status: 200 stands for 2xx, and so on.",
    "task": "Return only tasks of this kind (the name that the SDKs use).",
    "until": "Return only results before this time.",
    "with_content": "Include the content, which may be large.",
}
