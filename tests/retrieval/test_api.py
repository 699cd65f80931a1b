"""The answer API: ask, read again, and errors as problems."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client

from retrieval.api import AnswerThrottle
from retrieval.models import Answer
from tests.factories import World, make_answer, make_section, make_ticket, make_token
from tests.retrieval.conftest import Desk

ANSWERS = "/api/v1/answers"


@pytest.fixture(autouse=True)
def _no_throttle_yet() -> None:
    cache.clear()


def client_of(user: Any) -> Client:
    return Client(headers={"authorization": f"Bearer {make_token(user)}"})


@pytest.fixture
def alice(world: World) -> Client:
    return client_of(world.alice)


def ask(client: Client, body: Any) -> Any:
    return client.post(ANSWERS, body, content_type="application/json")


def test_question_is_answered_and_stays_at_its_location(desk: Desk) -> None:
    client = client_of(desk.web)
    response = ask(client, {"question": "What fixed the csv upload that fails?"})
    assert response.status_code == 201, response.content
    body = response.json()
    assert response["Location"] == body["url"] == f"http://testserver{ANSWERS}/{body['id']}"
    assert body["route"] == "graph"
    assert body["declined"] is False
    cited = {c["number"]: c for c in body["citations"]}
    assert f"[{max(cited)}]" in body["text"]
    fix = next(c for c in cited.values() if c["section"] == "fix_solution")
    assert "address cache" in fix["quote"]
    assert fix["html_url"] == "http://testserver/tickets/default/WEB-1/#fix_solution"
    assert client.get(fix["ticket"]["url"]).json()["key"] == "WEB-1"
    assert "HAS_FIX_SOLUTION" in body["cypher"]
    for row in body["ranking"]:
        parts = sum(part["contribution"] for part in row["contributions"])
        assert parts == pytest.approx(row["score"], abs=0.001)
    assert body["rungs"][-1]["answered"] is True
    again = client.get(response["Location"])
    assert again.status_code == 200
    assert again.json() == body


def test_question_in_baseline_mode_runs_no_cypher(desk: Desk) -> None:
    body = ask(client_of(desk.web), {"question": "csv upload fails", "mode": "baseline"}).json()
    assert (body["mode"], body["route"], body["cypher"]) == ("baseline", "baseline", "")


def test_answer_that_quotes_an_internal_note_says_so(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1")
    note = make_section(ticket, "comment-1", "Between us", public=False)
    body = alice.get(f"{ANSWERS}/{make_answer(world.alice, note).pk}").json()
    assert body["contains_internal"] is True
    assert body["citations"][0]["public"] is False
    public = make_answer(world.alice, ticket.sections.get(kind="summary"))
    assert alice.get(f"{ANSWERS}/{public.pk}").json()["contains_internal"] is False


def test_answer_cited_twice_from_one_ticket_keeps_its_numbers(world: World, alice: Client) -> None:
    ticket = make_ticket(world.alpha, "ALPHA-1", sections={"fix_solution": "Restart"})
    answer = make_answer(world.alice, *ticket.sections.order_by("pk"))
    body = alice.get(f"{ANSWERS}/{answer.pk}").json()
    numbered = [(c["number"], c["anchor"]) for c in body["citations"]]
    assert numbered == [(1, "summary"), (2, "fix_solution")]
    assert body["text"] == "ALPHA-1 says [1].\n\nALPHA-1 says [2]."


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/question"),
        ({"question": ""}, "/question"),
        ({"question": "  "}, "/question"),
        ({"question": ["Why?"]}, "/question"),
        ({"question": "x" * 20_001}, "/question"),
        ({"question": "a\x00b"}, "/question"),
        ({"question": "Why?", "mode": "magic"}, "/mode"),
        ({"question": "Why?", "model/x": 1}, "/model~1x"),
        ('{"question": "half \\ud800"}', "/question"),
    ],
)
def test_question_that_cannot_be_asked_names_the_field(
    alice: Client, body: Any, pointer: str
) -> None:
    response = ask(alice, body if isinstance(body, str) else json.dumps(body))
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    found = response.json()
    assert found["type"] == "urn:supportkg:problem:invalid"
    assert [error["pointer"] for error in found["errors"]] == [pointer]
    assert not Answer.objects.exists()


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        ("{", "application/json", 400, "parse_error"),
        ("[]", "application/json", 400, "invalid"),
        ("question=Why", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    ],
)
def test_body_that_is_no_question_is_a_problem(
    alice: Client, body: str, kind: str, status: int, code: str
) -> None:
    response = alice.post(ANSWERS, body, content_type=kind)
    assert response.status_code == status
    assert response.json()["type"] == f"urn:supportkg:problem:{code}"


def test_unknown_parameter_is_refused(world: World, alice: Client) -> None:
    answer = make_answer(world.alice)
    response = alice.get(f"{ANSWERS}/{answer.pk}?expand=all")
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == "expand"


def test_answers_have_a_bucket_of_their_own(
    world: World, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnswerThrottle, "rate", "1/min")
    assert ask(alice, {"question": "Why?"}).status_code == 201
    refused = ask(alice, {"question": "Why?"})
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert alice.get("/api/v1/tickets").status_code == 200
    assert ask(client_of(world.bob), {"question": "Why?"}).status_code == 201


def test_database_that_does_not_answer_is_a_problem_without_its_address(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **kwargs: Any) -> None:
        raise OperationalError('connection to server at "10.1.2.3" failed')

    monkeypatch.setattr("retrieval.pipeline.answer", gone)
    response = ask(alice, {"question": "Why?"})
    assert response.status_code == 503
    assert response["Retry-After"] == "10"
    assert response.json()["request_id"]
    assert b"10.1.2.3" not in response.content


def test_crash_is_a_problem_without_its_reason(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr("retrieval.pipeline.answer", broken)
    alice.raise_request_exception = False
    response = ask(alice, {"question": "Why?"})
    assert response.status_code == 500
    assert response["Content-Type"] == "application/problem+json"
    assert b"secret" not in response.content


def test_token_from_the_command_opens_the_api(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("create_token", "alice")
    token = capsys.readouterr().out.strip()
    assert token.startswith("skg_")
    response = Client(headers={"authorization": f"Bearer {token}"}).get("/api/v1/tickets")
    assert response.status_code == 200


@pytest.mark.parametrize(("name", "days"), [("nobody", None), ("alice", 0), ("alice", -1)])
def test_token_for_nobody_or_no_time_is_refused(world: World, name: str, days: int | None) -> None:
    with pytest.raises(CommandError):
        call_command("create_token", name, days=days)
