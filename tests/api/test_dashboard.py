"""The status page: closed to strangers, one organization's data only, everything escaped."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

from hookline import clock, tokens
from hookline.html import tag
from hookline.model import Dead
from hookline.states import Health, Reason
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory
from tests.support.scene import Scene

FORM = {"content-type": "application/x-www-form-urlencoded"}
HOSTILE = "<script>alert(1)</script>"


async def sign_in(nobody: Client, token: str) -> Answer:
    return await nobody.request("POST", "/login", urlencode({"token": token}).encode(), FORM)


async def show(nobody: Client, token: str) -> str:
    answer = await nobody.request("GET", "/", None, {"cookie": f"hookline_token={token}"})
    assert answer.status == 200, answer
    return answer.body.decode()


async def test_closed_without_a_token(nobody: Client) -> None:
    answer = await nobody.get("/")
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    for wrong in ("", "x", "a.b.c"):
        assert (await nobody.request("GET", "/", None, {"cookie": f"hookline_token={wrong}"})).status == 303
        assert (await sign_in(nobody, wrong)).status == 401


async def test_signing_in_sets_a_cookie_that_scripts_and_other_sites_never_see(nobody: Client, token: str) -> None:
    answer = await sign_in(nobody, token)
    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    out = await nobody.request("POST", "/logout", b"", {})
    assert 'hookline_token=""' in out.headers["set-cookie"]


async def test_an_applications_token_does_not_open_it(nobody: Client, narrow: Client) -> None:
    assert narrow.token is not None
    assert (await sign_in(nobody, narrow.token)).status == 401


async def test_no_script_can_run(nobody: Client, token: str) -> None:
    for path in ("/", "/login"):
        answer = await nobody.request("GET", path, None, {"cookie": f"hookline_token={token}"})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "frame-ancestors 'none'" in policy
    assert (await nobody.get("/static/style.css")).headers["content-type"].startswith("text/css")


async def test_one_that_asked_to_be_left_alone_is_not_well(nobody: Client, token: str, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=3000)
    await scene.record(factory.retry(job, after=3000, hold_until=until))
    page = await show(nobody, token)
    assert "❚❚ asked to be left alone for 49 min" in page
    assert "❚❚ 1 endpoint held. " in page
    await scene.age(3001)
    assert "asked to be left alone" not in await show(nobody, token)


async def test_an_empty_one_teaches_the_next_step(nobody: Client, token: str) -> None:
    assert "hookline listen --register demo --ping" in await show(nobody, token)


async def test_shows_what_is_wrong_and_what_to_do(nobody: Client, token: str, scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.trip(sick)
    page = await show(nobody, token)
    assert "1 endpoint held" in page
    assert "circuit open, next probe in" in page
    assert sick.url in page


async def test_dead_letters_are_escaped(nobody: Client, token: str, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    verdict = Dead(reason=Reason.PERMANENT_FAILURE, detail=HOSTILE)
    await scene.record(factory.result(job, verdict, Health.GOOD, factory.answered(422)))

    page = await show(nobody, token)
    assert "1 dead letter" in page
    assert f"hookline dead replay dl_{job.delivery_id}" in page
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page


async def test_another_organization_sees_nothing_of_it(nobody: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    other = await scene.store.save_organization(factory.organization())

    page = await show(nobody, tokens.issue(JWT_SECRET, other.id, now=clock.wall()))
    assert endpoint.url not in page
    assert "No endpoints yet" in page


def test_markup_escapes_texts_and_attributes() -> None:
    made = tag("a", '<b>"&', tag("i", "x"), href='"><script>', class_="one", hidden=True, title=None)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="one" hidden>&lt;b&gt;&quot;&amp;<i>x</i></a>'
