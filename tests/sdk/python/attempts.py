from __future__ import annotations

from typing import Any

import sdk
from svix import api
from world import World, ago, ids, walk

SUCCESS, FAIL = api.MessageStatus.SUCCESS, api.MessageStatus.FAIL
SCHEDULED, MANUAL = api.MessageAttemptTriggerType.SCHEDULED, api.MessageAttemptTriggerType.MANUAL


class Retried:
    """A message that the receiver refused with 503 first and accepted at the second attempt."""

    def __init__(self, world: World) -> None:
        self.world, self.app, self.path = world, world.application(), world.path()
        self.endpoint = world.endpoint(self.app, self.path, uid=world.fresh("retried"))
        self.kind = world.event_type().name
        world.receiver.answer(self.path, (503, b"not now"), (200, b"got it"))
        self.message = world.send(self.app, self.kind, channels=["north"], tags=["vip"], payload={"amount": 9})
        self.arrivals = [world.receiver.next(self.path) for _ in range(2)]
        self.taken, self.failed = world.attempts(self.app, self.message, 2)

    def by_msg(self, **fields: Any) -> list[Any]:
        options = api.MessageAttemptListByMsgOptions(**fields)
        found: list[Any] = self.world.svix.message_attempt.list_by_msg(self.app.id, self.message.id, options).data
        return found

    def by_endpoint(self, **fields: Any) -> list[Any]:
        options = api.MessageAttemptListByEndpointOptions(**fields)
        attempts = self.world.svix.message_attempt
        found: list[Any] = attempts.list_by_endpoint(self.app.id, self.endpoint.id, options).data
        return found

    def messages(self, **fields: Any) -> list[Any]:
        options = api.MessageAttemptListAttemptedMessagesOptions(**fields)
        attempts = self.world.svix.message_attempt
        found: list[Any] = attempts.list_attempted_messages(self.app.id, self.endpoint.id, options).data
        return found


def retried_under_one_id(world: World) -> None:
    retried = Retried(world)
    first, second = retried.arrivals
    assert first.id == second.id == retried.message.id
    assert first.body == second.body
    assert second.verified_by(world.secret(retried.app, retried.endpoint))

    failed, taken = retried.failed, retried.taken
    assert taken.id.startswith("atmpt_")
    assert (failed.status, failed.status_text, failed.response_status_code) == (FAIL, "fail", 503)
    assert (taken.status, taken.status_text, taken.response_status_code) == (SUCCESS, "success", 200)
    assert (failed.response, taken.response) == ("not now", "got it")
    for attempt in (failed, taken):
        assert (attempt.msg_id, attempt.endpoint_id) == (retried.message.id, retried.endpoint.id)
        assert (attempt.url, attempt.trigger_type) == (retried.endpoint.url, SCHEDULED)
        assert attempt.response_duration_ms >= 0
        assert world.svix.message_attempt.get(retried.app.id, retried.message.id, attempt.id) == attempt
    assert failed.timestamp <= taken.timestamp


def listed_by_message(world: World) -> None:
    retried = Retried(world)
    failed, taken = retried.failed.id, retried.taken.id
    assert ids(retried.by_msg()) == [taken, failed]
    assert ids(retried.by_msg(status=FAIL)) == ids(retried.by_msg(status_code_class=500)) == [failed]
    assert ids(retried.by_msg(status=SUCCESS)) == ids(retried.by_msg(status_code_class=200)) == [taken]
    assert ids(retried.by_msg(endpoint_id=retried.endpoint.uid)) == [taken, failed]
    assert ids(retried.by_msg(endpoint_id=world.endpoint(retried.app, world.path()).id)) == []
    assert ids(retried.by_msg(channel="south")) == ids(retried.by_msg(event_types=["other.type"])) == []
    assert ids(retried.by_msg(before=ago(minutes=-5))) == ids(retried.by_msg(after=ago(minutes=5))) == [taken, failed]
    assert ids(retried.by_msg(before=ago(minutes=5))) == ids(retried.by_msg(after=ago(minutes=-5))) == []
    assert [row.response for row in retried.by_msg(with_content=True)] == ["got it", "not now"]
    assert [row.response for row in retried.by_msg(with_content=False)] == ["", ""]


def listed_by_endpoint(world: World) -> None:
    retried = Retried(world)
    failed, taken = retried.failed.id, retried.taken.id
    assert ids(retried.by_endpoint()) == [taken, failed]
    assert ids(retried.by_endpoint(status=FAIL)) == ids(retried.by_endpoint(status_code_class=500)) == [failed]
    assert ids(retried.by_endpoint(channel="north")) == ids(retried.by_endpoint(tag="vip")) == [taken, failed]
    assert ids(retried.by_endpoint(event_types=[retried.kind])) == [taken, failed]
    assert ids(retried.by_endpoint(channel="south")) == ids(retried.by_endpoint(tag="new")) == []
    assert ids(retried.by_endpoint(event_types=["other.type"])) == ids(retried.by_endpoint(before=ago(minutes=5))) == []
    assert [row.response for row in retried.by_endpoint(with_content=True)] == ["got it", "not now"]
    with_message = retried.by_endpoint(with_msg=True, with_content=True)
    assert [row.msg.id for row in with_message] == [retried.message.id] * 2


def walked_in_both_directions(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    sent = [world.send(app) for _ in range(5)]
    attempts = [world.attempts(app, message, 1)[0].id for message in sent]

    listed = walk(
        lambda options: svix.message_attempt.list_by_endpoint(app.id, endpoint.id, options),
        api.MessageAttemptListByEndpointOptions,
    )
    assert sorted(ids(listed)) == sorted(attempts)
    messages = walk(
        lambda options: svix.message_attempt.list_attempted_messages(app.id, endpoint.id, options),
        api.MessageAttemptListAttemptedMessagesOptions,
    )
    assert sorted(ids(messages)) == sorted(ids(sent))


def messages_of_an_endpoint(world: World) -> None:
    retried = Retried(world)
    [row] = retried.messages(with_content=True)
    assert (row.id, row.event_type, row.payload) == (retried.message.id, retried.kind, {"amount": 9})
    assert (row.status, row.status_text, row.next_attempt) == (SUCCESS, "success", None)
    assert [row.payload for row in retried.messages(with_content=False)] == [{}]
    assert ids(retried.messages(status=SUCCESS)) == ids(retried.messages(event_types=[retried.kind])) == [row.id]
    assert ids(retried.messages(channel="north")) == ids(retried.messages(tag="vip")) == [row.id]
    assert ids(retried.messages(status=FAIL)) == ids(retried.messages(channel="south")) == []
    assert ids(retried.messages(before=ago(minutes=5))) == ids(retried.messages(after=ago(minutes=-5))) == []


def destinations_of_a_message(world: World) -> None:
    svix, app = world.svix, world.application()
    endpoints = [world.endpoint(app, world.path(), description=f"number {number}") for number in range(3)]
    sent = world.send(app)
    world.attempts(app, sent, 3)
    rows = walk(
        lambda options: svix.message_attempt.list_attempted_destinations(app.id, sent.id, options),
        api.MessageAttemptListAttemptedDestinationsOptions,
    )
    assert sorted(ids(rows)) == sorted(ids(endpoints))
    assert {row.description for row in rows} == {"number 0", "number 1", "number 2"}
    assert {(row.status, row.status_text) for row in rows} == {(SUCCESS, "success")}


def resent_by_hand(world: World) -> None:
    retried = Retried(world)
    svix, app, endpoint, message = world.svix, retried.app, retried.endpoint, retried.message
    svix.message_attempt.resend(app.id, message.id, endpoint.id)
    arrival = world.receiver.next(retried.path)
    assert (arrival.id, arrival.body) == (message.id, retried.arrivals[0].body)
    newest = world.attempts(app, message, 3)[0]
    assert (newest.trigger_type, newest.status) == (MANUAL, SUCCESS)
    sdk.refused(404, "not_found", svix.message_attempt.resend, app.id, message.id, "nobody")


def response_is_expunged(world: World) -> None:
    retried = Retried(world)
    attempts, app, message = world.svix.message_attempt, retried.app, retried.message
    assert attempts.expunge_content(app.id, message.id, retried.taken.id) is None
    left = attempts.get(app.id, message.id, retried.taken.id)
    assert (left.id, left.response_status_code) == (retried.taken.id, 200)
    assert "got it" not in left.response
    assert attempts.get(app.id, message.id, retried.failed.id).response == "not now"


def refused(world: World) -> None:
    svix, app, nobody = world.svix, world.application(), "atmpt_2bYFAkeAndNotThere0000000000"
    attempts, sent = svix.message_attempt, world.send(app)
    sdk.refused(404, "not_found", attempts.get, app.id, sent.id, nobody)
    sdk.refused(404, "not_found", attempts.expunge_content, app.id, sent.id, nobody)
    sdk.refused(404, "not_found", attempts.list_by_msg, app.id, "msg_2bYFAkeAndNotThere0000000000")
    for call in (attempts.list_by_endpoint, attempts.list_attempted_messages):
        sdk.refused(404, "not_found", call, app.id, "nobody")
    sdk.refused(404, "not_found", attempts.list_attempted_destinations, world.application().id, sent.id)


CHECKS = (
    retried_under_one_id,
    listed_by_message,
    listed_by_endpoint,
    walked_in_both_directions,
    messages_of_an_endpoint,
    destinations_of_a_message,
    resent_by_hand,
    response_is_expunged,
    refused,
)
