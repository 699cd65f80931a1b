"""System checks: settings that cannot work together, found before they hurt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register

from .lib.embeddings import EMBEDDING_MODELS


@register(Tags.compatibility)
def embedding_model(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    if settings.EMBEDDING_MODEL in EMBEDDING_MODELS:
        return []
    choices = ", ".join(sorted(EMBEDDING_MODELS))
    return [
        Error(
            f"EMBEDDING_MODEL='{settings.EMBEDDING_MODEL}' is not known.",
            hint=f"Choose one of: {choices}.",
            id="supportkg.E001",
        )
    ]


@register(Tags.compatibility)
def time_zone(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    try:
        ZoneInfo(settings.TICKET_TIME_ZONE)
    except (ZoneInfoNotFoundError, ValueError):
        return [
            Error(
                f"TICKET_TIME_ZONE='{settings.TICKET_TIME_ZONE}' is not a time zone.",
                hint="Use a name such as UTC or Europe/Berlin.",
                id="supportkg.E002",
            )
        ]
    return []


@register(Tags.compatibility)
def limits(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Time limits must nest: query < task < redelivery by the broker."""
    visibility = settings.CELERY_BROKER_TRANSPORT_OPTIONS.get("visibility_timeout", math.inf)
    times = [
        ("GRAPH_QUERY_TIMEOUT", settings.GRAPH_QUERY_TIMEOUT),
        ("CELERY_TASK_SOFT_TIME_LIMIT", settings.CELERY_TASK_SOFT_TIME_LIMIT),
        ("CELERY_TASK_TIME_LIMIT", settings.CELERY_TASK_TIME_LIMIT),
        ("the broker's visibility_timeout", visibility),
    ]
    return [
        Error(
            f"{name} ({value} s) must be shorter than {longer} ({limit} s).",
            hint="Otherwise work is cut off, or done twice.",
            id="supportkg.E003",
        )
        for (name, value), (longer, limit) in pairwise(times)
        if value >= limit
    ]


@register(Tags.security, deploy=True)
def cookies(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    if settings.SECURE_COOKIES or settings.DEBUG:
        return []
    return [
        checks.Warning(
            "Session cookies may travel over plain HTTP.",
            hint="Set SECURE_COOKIES=1 when the site is served over HTTPS.",
            id="supportkg.W001",
        )
    ]


@register(Tags.database, deploy=True)
def database_engine(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    engine = settings.DATABASES["default"].get("ENGINE", "")
    if engine.endswith("postgresql"):
        return []
    return [
        Error(
            "DATABASE_URL does not name a PostgreSQL database.",
            hint="Use postgres://user:password@host:5432/name; pgvector must be installed there.",
            id="supportkg.E004",
        )
    ]
