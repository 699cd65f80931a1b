"""Questions and their answers, as they were given.

Promises that an answer can be read again with everything that led to it: the
ranked tickets and their scores, the Cypher that ran, and each rung that was
tried with the reason it was left.
Must never happen: an answer shown to somebody other than who asked (superusers
apart), since it quotes tickets that the asker was allowed to see.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models.deletion import Collector
from django.urls import reverse
from django.utils import timezone

from tickets.models import Section, Ticket

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractUser, AnonymousUser


def erase_answers(collector: Collector, field: Any, citations: Any, using: str) -> None:
    """What a deleted ticket takes along: every answer that quotes it, with all of its text."""
    ids = {citation.answer_id for citation in citations}
    collector.collect(list(Answer.objects.using(using).filter(pk__in=ids)))


class AnswerQuerySet(models.QuerySet["Answer"]):
    def visible_to(self, user: AbstractUser | AnonymousUser) -> AnswerQuerySet:
        if user.is_active and user.is_superuser:
            return self
        return self.filter(asked_by=user.pk) if user.pk else self.none()


class Answer(models.Model):
    """One question and what came back."""

    class Mode(models.TextChoices):
        GRAPH = "graph"
        BASELINE = "baseline", "text baseline"

    class Route(models.TextChoices):
        """The rung that gave the answer."""

        GRAPH = "graph", "graph query"
        SUBGRAPH = "subgraph", "whole tickets from the graph"
        BASELINE = "baseline", "plain text"
        DECLINED = "declined", "no answer"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    question = models.TextField()
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True
    )
    mode = models.CharField(max_length=10, choices=Mode.choices, default=Mode.GRAPH)
    route = models.CharField(max_length=10, choices=Route.choices)
    text = models.TextField(help_text="With [n] where citation n supports the sentence.")
    rungs = models.JSONField(
        default=list, help_text="Each rung tried, in order, with the reason it was left."
    )
    analysis = models.JSONField(default=dict, help_text="Entities by section kind, and intents.")
    ranking = models.JSONField(default=list, help_text="Ranked tickets with what made the score.")
    cypher = models.TextField(blank=True, help_text="The query that ran, as the gate passed it.")
    cypher_parameters = models.JSONField(default=dict, blank=True)
    embedding_model = models.CharField(max_length=100, blank=True)
    seconds = models.JSONField(default=dict, help_text="Time of each stage in seconds.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = AnswerQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["asked_by", "-created_at"], name="answer_recent")]

    def __str__(self) -> str:
        return self.question[:80]

    def get_absolute_url(self) -> str:
        return reverse("retrieval:answer", args=[self.pk])

    @property
    def declined(self) -> bool:
        return self.route == self.Route.DECLINED

    @property
    def contains_internal(self) -> bool:
        """Whether it quotes a note that customers must not see."""
        return any(not citation.public for citation in self.citations.all())


class Citation(models.Model):
    """The passage that a numbered mark in an answer leads to."""

    answer = models.ForeignKey(Answer, on_delete=models.CASCADE, related_name="citations")
    number = models.PositiveIntegerField()
    ticket = models.ForeignKey(Ticket, on_delete=erase_answers, related_name="citations")
    section = models.ForeignKey(
        Section, on_delete=models.SET_NULL, null=True, blank=True, related_name="citations"
    )
    anchor = models.CharField(max_length=60, help_text="The section's place on the ticket page.")
    quote = models.TextField(help_text="The words that support the sentence, as they stand there.")
    public = models.BooleanField(default=True)

    class Meta:
        ordering = ["answer_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["answer", "number"], name="citation_identity")
        ]

    def __str__(self) -> str:
        return f"[{self.number}] {self.anchor}"

    def get_absolute_url(self) -> str:
        return f"{self.ticket.get_absolute_url()}#{self.anchor}"
