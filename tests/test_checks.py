"""System checks: each fires on what it is for, and the defaults are clean."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks


def ids(**options: Any) -> set[str | None]:
    return {m.id for m in run_checks(**options) if (m.id or "").startswith("supportkg")}


def test_defaults_are_clean() -> None:
    assert ids() == set()


@pytest.mark.parametrize(
    ("name", "value", "identity"),
    [
        ("EMBEDDING_MODEL", "word2vec", "supportkg.E001"),
        ("TICKET_TIME_ZONE", "Mars/Olympus", "supportkg.E002"),
        ("GRAPH_QUERY_TIMEOUT", 9_999, "supportkg.E003"),
        ("CELERY_TASK_TIME_LIMIT", 99_999, "supportkg.E003"),
    ],
)
def test_wrong_setting_is_reported(settings: Any, name: str, value: Any, identity: str) -> None:
    setattr(settings, name, value)
    assert ids() == {identity}


def test_deploy_check_of_cookies(settings: Any) -> None:
    settings.SECURE_COOKIES = False
    assert "supportkg.W001" in ids(include_deployment_checks=True)
    settings.SECURE_COOKIES = True
    assert "supportkg.W001" not in ids(include_deployment_checks=True)
