"""A small help desk whose answers are known, and two people who see different parts of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from tickets import ingest
from tickets.importers.raw import PersonRef, RawComment, RawLink, RawTicket
from tickets.models import Project

_SOLVED: dict[str, Any] = {
    "status": "Closed",
    "status_category": "solved",
    "resolution": "Fixed",
    "resolution_category": "fixed",
    "reporter": PersonRef(name="anna"),
}
TICKETS = [
    RawTicket(
        key="WEB-1",
        project="WEB",
        summary="CSV upload fails when the user's email address is changed",
        description=(
            "After an address change the upload stops.\n\nSteps to reproduce:\n"
            "1. Change the email address of a user\n2. Upload users.csv\n\n"
            "Actual result: csv upload error ERR-4711\nExpected result: the file is taken"
        ),
        priority="Major",
        comments=(
            RawComment(
                "We saw this in three shops.", author=PersonRef(name="anna"), role="customer"
            ),
            RawComment(
                "Fixed by refreshing the address cache before the upload, pull request 88.",
                author=PersonRef(name="devi"),
            ),
            RawComment(
                "Customer Meyer threatens to leave.", author=PersonRef(name="devi"), public=False
            ),
        ),
        **_SOLVED,
    ),
    RawTicket(
        key="WEB-2",
        project="WEB",
        summary="Upload of a CSV file fails after changing the email address of a user",
        description="It stopped working yesterday.",
        links=(RawLink("DUPLICATE_OF", "WEB-2", "WEB-1", "Duplicate"),),
        status="Open",
    ),
    RawTicket(
        key="WEB-3",
        project="WEB",
        summary="Dark mode has unreadable menu text",
        description="Steps to reproduce: switch to dark mode and open the menu",
        links=(RawLink("BLOCKS", "WEB-4", "WEB-3", "Blocks"),),
        status="Open",
    ),
    RawTicket(
        key="WEB-4",
        project="WEB",
        summary="Colour tokens are not themed",
        description="All colours are fixed values.",
        status="Open",
    ),
    RawTicket(
        key="PAY-1",
        project="PAY",
        summary="Invoice shows the wrong tax rate for Switzerland",
        description="Steps to reproduce: order to Basel and open the invoice",
        comments=(
            RawComment("Fixed in the tax table, commit 9f2c1.", author=PersonRef(name="devi")),
        ),
        **_SOLVED,
    ),
    RawTicket(
        key="PAY-2",
        project="PAY",
        summary="ログイン画面でエラーが表示される",
        description="再現手順：\n1. アプリを開く\n2. ログインする",
        status="Open",
    ),
]


@dataclass(frozen=True)
class Desk:
    """Imported tickets; ``web`` sees project WEB, ``nobody`` sees none, ``boss`` sees all."""

    web: Any
    nobody: Any
    boss: Any
    graph: Any

    @property
    def projects(self) -> list[int]:
        return list(Project.objects.values_list("pk", flat=True))


@pytest.fixture
def desk(db: None, graph: Any) -> Desk:
    assert ingest.ingest(replace(t) for t in TICKETS).created == len(TICKETS)
    users = get_user_model().objects
    web = users.create_user("web")
    Project.objects.get(key="WEB").members.add(web)
    return Desk(web, users.create_user("nobody"), users.create_superuser("boss"), graph)
