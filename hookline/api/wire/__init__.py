"""The JSON shapes by resource, in camelCase like the API of Svix.

The command line prints the same shapes with `--json`.
"""

from hookline.api.wire.applications import ApplicationIn, ApplicationOut, application
from hookline.api.wire.attempts import AttemptOut, DeliveryOut, attempt, delivery
from hookline.api.wire.base import In, ListResponse, Out, Policy, encode, policy
from hookline.api.wire.dead_letters import DeadLetterOut, DeadStatsOut, dead_letter, dead_stats
from hookline.api.wire.endpoints import EndpointIn, EndpointOut, LaneEventOut, LaneOut, endpoint, lane, lane_event
from hookline.api.wire.event_types import EventTypeOut, event_type
from hookline.api.wire.messages import MessageOut, message
