"""Convert database rows to models and back, for both engines. A `Reading` holds the engine's conversions of instants,
lists and objects."""

from hookline.store.rows.access import audit, audit_columns, guesses, operator, session
from hookline.store.rows.catalogue import api_key, application, endpoint, endpoint_or_fault, event_type, organization
from hookline.store.rows.deliveries import (
    attempt,
    attempted,
    dead_letter,
    dead_summary,
    delivery,
    endpoint_name,
    listed_message,
    message,
    set_aside,
)
from hookline.store.rows.documents import (
    CLAIM_BITS,
    headers_blob,
    json_text,
    open_answer,
    open_headers,
    open_secrets,
    place_url,
    policy_text,
    read_headers,
    read_policy,
    seal_answer,
    seal_headers,
    seal_secrets,
    storable,
)
from hookline.store.rows.lanes import (
    LANE_WRITTEN,
    actor,
    app_pace,
    lane,
    lane_event,
    lane_view,
    timeline_entry,
    unhealthy_lane,
)
from hookline.store.rows.reading import Reading, Row
from hookline.store.rows.tasks import task
