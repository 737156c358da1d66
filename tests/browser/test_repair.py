"""An operator, and then a customer, repairs a failing endpoint and replays its dead letters. The receiver counts
requests."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import one_engine
from tests.browser.visitor import Visitor, check_notice
from tests.browser.world import FAILS, REFUSES, Customer, Endpoint, World
from tests.support.receiver import OK

WAITING = 4


def red(world: World) -> tuple[Customer, Endpoint, set[str]]:
    """An endpoint that failed until its circuit opened. Earlier messages are dead, later ones wait."""
    customer = world.customer("Globex Corporation")
    endpoint = customer.endpoint(FAILS, policy={"maxAttempts": 1})
    sent: list[str] = []

    def opened() -> bool:
        sent.append(customer.publish())
        customer.wait_for_dead(len(sent))  # no request is in flight when the circuit opens
        circuit: str = world.get(f"/app/{customer.id}/endpoint/{endpoint.id}/health")["circuit"]
        return circuit == "open"

    world.wait("an open circuit", opened)
    return customer, endpoint, {*sent, *(customer.publish() for _ in range(WAITING))}


def test_an_operator_repairs_a_failing_endpoint(visitor: Visitor, world: World) -> None:
    customer, endpoint, sent = red(world)
    page = visitor.operator(f"/?app={customer.id}")

    # The first line says what is wrong, and the button beside it what to do.
    row = page.get_by_role("row").filter(has_text=endpoint.path)
    expect(row).to_contain_text("circuit open")
    expect(row).to_contain_text("503")

    # The receiver is repaired. Waiting messages are sent once the circuit is closed.
    endpoint.behave(OK)
    row.get_by_role("button", name="Close circuit").click()
    check_notice(page, "The circuit is closed")

    # The page shows the number of dead letters before it replays them.
    letters = len(customer.dead())
    before = len(endpoint.arrived())
    page.goto(f"/dead-letters?app={customer.id}")
    page.get_by_role("link", name=f"Replay all {letters}").click()
    many = f"{letters} deliver{'y' if letters == 1 else 'ies'} to 1 endpoint"
    page.get_by_role("button", name=f"Replay {many}").click()
    expect(page.locator("main")).to_contain_text(f"{letters} replayed")

    arrived = endpoint.wait_for(before + letters)
    world.wait("everything", lambda: set(endpoint.arrived()) >= sent)
    assert len([each for each in arrived if each in sent]) == len(arrived)
    page.goto(f"/dead-letters?app={customer.id}")
    expect(page.locator(".verdict").first).to_contain_text("No dead letters")
    page.goto(f"/endpoints/{endpoint.id}")
    expect(page.locator(".verdict").first).to_contain_text("No deliveries are waiting")


def test_a_customer_replays_dead_letters(visitor: Visitor, world: World) -> None:
    """A customer replays dead letters in the portal, without an operator."""
    customer = world.customer("Initech")
    endpoint = customer.endpoint(REFUSES)
    sent = [customer.publish() for _ in range(3)]
    customer.wait_for_dead(3)

    page = visitor.customer(customer, "/dead-letters")
    letters = page.locator("tr:has(input[name=id])")
    expect(letters).to_have_count(3)
    expect(letters.first).to_contain_text("404")
    endpoint.behave(OK)
    for at in (0, 2):
        letters.nth(at).get_by_role("checkbox").check()
    page.get_by_role("button", name="Replay selected").click()
    page.get_by_role("button", name="Replay 2 deliveries to 1 endpoint").click()
    check_notice(page, "2")
    again = endpoint.wait_for(5)[3:]
    assert len(set(again)) == 2
    assert set(again) < set(sent)
    assert len(customer.dead()) == 1


@one_engine
def test_one_dead_letter_is_resolved_with_a_note(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    page = visitor.operator(f"/dead-letters?app={customer.id}")
    page.get_by_role("link", name="Resolve it").click()
    page.get_by_label("Note").fill("they closed the shop")
    page.get_by_role("button", name="Resolve 1 dead letter of 1 endpoint").click()
    world.wait("no dead letter", lambda: customer.dead() == [])
    page.goto(f"/dead-letters?app={customer.id}&state=resolved")
    expect(page.locator("main")).to_contain_text("they closed the shop")


@one_engine
def test_an_event_has_one_page_with_its_history(visitor: Visitor, world: World) -> None:
    """The search finds an event by the sender's own id. Its page has the history and the replay button."""
    customer = world.customer()
    endpoint = customer.endpoint(REFUSES)
    message = customer.publish({"order": 4711}, eventId="evt-4711-x")
    customer.wait_for_dead(1)
    page = visitor.operator(f"/messages?app={customer.id}")
    page.get_by_label("Search").fill("evt-4711-x")
    page.get_by_label("Search").press("Enter")
    page.get_by_role("link", name="order.paid").click()
    page.wait_for_url(re.compile(f"/messages/{message}"))
    main = page.locator("main")
    expect(main).to_contain_text("4711")
    expect(main).to_contain_text("there is no such shop")
    endpoint.behave(OK)
    page.get_by_role("button", name=re.compile("^Replay")).first.click()
    check_notice(page, "Replayed")
    endpoint.wait_for(2)
    expect(page.locator("main .state.delivered").first).to_be_visible()
