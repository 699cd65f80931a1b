"""Work on tickets that the curator does not wait for."""

from __future__ import annotations

from celery import shared_task

from supportkg.lib.graph import GraphUnavailable

from . import ingest


@shared_task(autoretry_for=(GraphUnavailable,), retry_backoff=5, max_retries=5)
def refresh_ticket(pk: int) -> None:
    """Bring vectors, terms, implicit links and graph of a ticket in line with its sections.

    Doing it twice changes nothing. A ticket that is gone is no error.
    """
    ingest.refresh([pk])
