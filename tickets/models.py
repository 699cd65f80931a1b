"""Tickets, their sections, vectors, terms and links: the truth of the product.

Promises that everything in Neo4j can be rebuilt from these rows.
Must never happen: a row of one project shown to somebody who may not see that
project; start every query for a person at ``visible_to``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models.functions import Upper
from django.urls import reverse
from django.utils import timezone
from pgvector.django import HnswIndex, VectorField

from .sections import template

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractUser, AnonymousUser

# Every registered model has this many; another number needs a migration.
VECTOR_DIMENSIONS = 384


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: AbstractUser | AnonymousUser | None) -> ProjectQuerySet:
        """The projects ``user`` may read; ``None`` is the machine itself and reads all."""
        if user is None or (user.is_active and user.is_superuser):
            return self
        if user.is_anonymous:
            return self.none()
        return self.filter(members=user.pk)


class Project(models.Model):
    """A project of a help desk, and the unit of permission."""

    source = models.SlugField(
        max_length=60,
        default="default",
        db_index=False,
        help_text="The help desk it came from. Ticket keys are unique within a source.",
    )
    key = models.CharField(max_length=100)
    name = models.CharField(max_length=200, blank=True)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        blank=True,
        related_name="projects",
        help_text="People who may read its tickets. Superusers read every project.",
    )

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ["source", "key"]
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="project_identity")]

    def __str__(self) -> str:
        return self.key if self.source == "default" else f"{self.source}/{self.key}"

    @property
    def graph_id(self) -> str:
        """The value of the property ``project`` on every node of this project."""
        return f"{self.source}/{self.key}"


class TicketQuerySet(models.QuerySet["Ticket"]):
    def visible_to(self, user: AbstractUser | AnonymousUser | None) -> TicketQuerySet:
        """Live tickets of the projects ``user`` may read."""
        return self.live().filter(project__in=Project.objects.visible_to(user))

    def live(self) -> TicketQuerySet:
        return self.filter(deleted_at=None)

    def unsynced(self) -> TicketQuerySet:
        """Tickets whose rows changed after they were last written to the graph."""
        return self.filter(synced_at=None)

    def mark_changed(self) -> int:
        """Their rows changed here: the graph is behind, and the API lists them again."""
        return self.update(synced_at=None, imported_at=timezone.now())


class Ticket(models.Model):
    """One ticket. ``raw`` keeps what the source said, untouched."""

    class StatusCategory(models.TextChoices):
        OPEN = "open"
        PENDING = "pending"
        SOLVED = "solved"
        CLOSED = "closed", "closed, not solved"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="tickets")
    source = models.SlugField(max_length=60, default="default", db_index=False)
    key = models.CharField(max_length=255)
    external_id = models.CharField(max_length=255, blank=True)
    type = models.CharField(max_length=200, blank=True)
    summary = models.TextField(blank=True)
    status = models.CharField(max_length=200, blank=True)
    status_category = models.CharField(
        max_length=10, choices=StatusCategory.choices, default=StatusCategory.OPEN
    )
    resolution = models.CharField(max_length=200, blank=True)
    resolution_category = models.CharField(max_length=20, blank=True)
    priority = models.CharField(max_length=200, blank=True)
    labels = ArrayField(models.TextField(), default=list, blank=True)
    components = ArrayField(models.TextField(), default=list, blank=True)
    reporter = models.CharField(max_length=255, blank=True)
    assignee = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    raw = models.JSONField(default=dict, help_text="The ticket as the source told it.")
    content_hash = models.CharField(max_length=64, editable=False)
    own_terms = models.PositiveIntegerField(
        default=0, editable=False, help_text="Number of terms in summary and description."
    )
    all_terms = models.PositiveIntegerField(
        default=0, editable=False, help_text="Number of terms with comments."
    )
    imported_at = models.DateTimeField(
        default=timezone.now, editable=False, help_text="When its rows last changed here."
    )
    synced_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Set when the graph holds this version; closes a write.",
    )
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TicketQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="ticket_identity")]
        indexes = [
            models.Index(fields=["-updated_at", "-id"], name="ticket_recent"),
            models.Index(fields=["project", "-updated_at", "-id"], name="ticket_project_recent"),
            models.Index(fields=["id"], name="ticket_unsynced", condition=models.Q(synced_at=None)),
            # For "contains" without regard to case, as Django writes it.
            GinIndex(OpClass(Upper("summary"), name="gin_trgm_ops"), name="ticket_summary_words"),
            GinIndex(OpClass(Upper("key"), name="gin_trgm_ops"), name="ticket_key_words"),
            models.Index(fields=["key"], name="ticket_key"),
            models.Index(fields=["imported_at", "id"], name="ticket_arrival"),
        ]

    def __str__(self) -> str:
        return self.key

    def get_absolute_url(self) -> str:
        return reverse("tickets:ticket", args=[self.source, self.key])

    @property
    def graph_id(self) -> str:
        return f"{self.source}/{self.key}"


class SectionQuerySet(models.QuerySet["Section"]):
    def visible_to(self, user: AbstractUser | AnonymousUser | None) -> SectionQuerySet:
        return self.filter(ticket__in=Ticket.objects.visible_to(user))


class Section(models.Model):
    """One node of a ticket's tree; identity = (ticket, kind, ordinal)."""

    ticket = models.ForeignKey(
        Ticket, on_delete=models.CASCADE, related_name="sections", db_index=False
    )
    kind = models.CharField(
        max_length=40,
        choices=[(k.kind, k.kind.replace("_", " ")) for k in template().kinds.values()],
    )
    ordinal = models.PositiveIntegerField(
        default=0, help_text="0 for kinds that occur once, from 1 for the others."
    )
    text = models.TextField(blank=True)
    author = models.CharField(max_length=255, blank=True)
    role = models.CharField(max_length=10, blank=True)
    public = models.BooleanField(default=True, help_text="Off for internal notes.")
    created_at = models.DateTimeField(null=True, blank=True)
    corrected = models.BooleanField(
        default=False,
        help_text="A curator changed text or visibility; imports keep them.",
    )

    objects = SectionQuerySet.as_manager()

    class Meta:
        ordering = ["ticket_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["ticket", "kind", "ordinal"], name="section_identity")
        ]

    def __str__(self) -> str:
        return f"{self.ticket.key} {self.anchor}"

    @property
    def anchor(self) -> str:
        """Its name inside the ticket: in the URL of a citation and in node ids."""
        return f"{self.kind}-{self.ordinal}" if self.ordinal else self.kind

    @property
    def heading(self) -> str:
        """Its name for people, such as "Steps to reproduce" or "Comment 3"."""
        name = self.kind.replace("_", " ").capitalize()
        return f"{name} {self.ordinal}" if self.ordinal else name

    def get_absolute_url(self) -> str:
        return f"{self.ticket.get_absolute_url()}#{self.anchor}"


class Chunk(models.Model):
    """A piece of text with its vector: of a section, or of the plain ticket text.

    Plain chunks (``section`` empty) are the single vector index of the text
    baseline; section chunks serve the section-conditioned ranking.
    """

    ticket = models.ForeignKey(
        Ticket, on_delete=models.CASCADE, related_name="chunks", db_index=False
    )
    section = models.ForeignKey(
        Section, on_delete=models.CASCADE, related_name="chunks", null=True, blank=True
    )
    kind = models.CharField(max_length=40, blank=True, help_text="Kind of its section, or empty.")
    ordinal = models.PositiveIntegerField(default=0)
    text = models.TextField()
    text_hash = models.CharField(max_length=64, editable=False)
    model = models.CharField(max_length=100, help_text="Cosines of two models are never compared.")
    vector = VectorField(dimensions=VECTOR_DIMENSIONS)

    class Meta:
        ordering = ["ticket_id", "id"]
        indexes = [
            HnswIndex(
                name="chunk_summary_vector",
                fields=["vector"],
                opclasses=["vector_cosine_ops"],
                condition=models.Q(kind="summary"),
            ),
            HnswIndex(
                name="chunk_description_vector",
                fields=["vector"],
                opclasses=["vector_cosine_ops"],
                condition=models.Q(kind="description"),
            ),
            HnswIndex(
                name="chunk_plain_vector",
                fields=["vector"],
                opclasses=["vector_cosine_ops"],
                condition=models.Q(kind=""),
            ),
            models.Index(fields=["ticket", "kind"], name="chunk_ticket_kind"),
            models.Index(fields=["text_hash"], name="chunk_text_hash"),
        ]

    def __str__(self) -> str:
        return f"{self.ticket_id} {self.kind or 'text'} {self.ordinal}"


class Posting(models.Model):
    """How often a term occurs in a ticket: the inverted index behind BM25."""

    ticket = models.ForeignKey(
        Ticket, on_delete=models.CASCADE, related_name="postings", db_index=False
    )
    term = models.CharField(max_length=64)
    own = models.PositiveIntegerField(help_text="Occurrences in summary and description.")
    every = models.PositiveIntegerField(help_text="Occurrences with comments.")

    class Meta:
        indexes = [
            models.Index(
                fields=["term", "ticket"], include=["own", "every"], name="posting_term_ticket"
            ),
            models.Index(fields=["ticket"], name="posting_ticket"),
        ]

    def __str__(self) -> str:
        return f"{self.term} in {self.ticket_id}"


class LinkQuerySet(models.QuerySet["Link"]):
    def pending(self) -> LinkQuerySet:
        """Links whose other end has not arrived yet."""
        return self.filter(other=None)


class Link(models.Model):
    """An explicit link as one ticket states it, in canonical direction.

    Both ends may state the same link; the graph holds it once. ``other`` is
    empty until the ticket at the other end arrives.
    """

    class Origin(models.TextChoices):
        TRACKER = "tracker"
        MENTION = "mention", "key in the text"

    ticket = models.ForeignKey(
        Ticket, on_delete=models.CASCADE, related_name="links", db_index=False
    )
    other = models.ForeignKey(
        Ticket, on_delete=models.SET_NULL, related_name="links_in", null=True, blank=True
    )
    type = models.CharField(max_length=30, choices=[(t, t) for t in template().links])
    source = models.SlugField(max_length=60, db_index=False)
    from_key = models.CharField(max_length=255)
    to_key = models.CharField(max_length=255)
    other_key = models.CharField(max_length=255)
    origin = models.CharField(max_length=10, choices=Origin.choices, default=Origin.TRACKER)
    label = models.CharField(max_length=200, blank=True, help_text="The tracker's own wording.")

    objects = LinkQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["ticket", "type", "from_key", "to_key"], name="link_statement"
            )
        ]
        indexes = [
            models.Index(
                fields=["source", "other_key"],
                name="link_pending",
                condition=models.Q(other=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.from_key} {self.type} {self.to_key}"


class SimilarLinkQuerySet(models.QuerySet["SimilarLink"]):
    def of(self, tickets: Sequence[Any]) -> SimilarLinkQuerySet:
        """The links with at least one end among ``tickets`` (rows or ids)."""
        return self.filter(models.Q(first__in=tickets) | models.Q(second__in=tickets))

    def standing(self) -> SimilarLinkQuerySet:
        return self.exclude(state=SimilarLink.State.REJECTED)


class SimilarLink(models.Model):
    """An implicit link: the titles of two tickets are close. It has no direction.

    A curator's state survives re-import and re-embedding. It never changes a
    ticket's status.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed"
        ACCEPTED = "accepted"
        REJECTED = "rejected"

    first = models.ForeignKey(
        Ticket, on_delete=models.CASCADE, related_name="similar_as_first", db_index=False
    )
    second = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="similar_as_second")
    score = models.FloatField(help_text="Cosine of the two titles, -1 to 1.")
    model = models.CharField(max_length=100)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PROPOSED)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = SimilarLinkQuerySet.as_manager()

    class Meta:
        ordering = ["-score", "id"]
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="similar_identity"),
            models.CheckConstraint(
                condition=models.Q(first__lt=models.F("second")), name="similar_order"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.first_id} ~ {self.second_id} ({self.score:.2f})"
