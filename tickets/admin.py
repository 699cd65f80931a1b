"""Curation of tickets: correct a section, judge an implicit link, remove a ticket.

Promises that every change reaches vectors and graph, at once or as soon as the
services are back, and that lists stay quick however many rows there are.
Must never happen: a row of a project that the curator may not see; a <select>
with all tickets; a decision that a re-import forgets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from kombu.exceptions import OperationalError as BrokerError

from supportkg.lib.graph import GraphUnavailable

from . import ingest
from .models import Chunk, Link, Posting, Project, Section, SimilarLink, Ticket
from .sections import template
from .tasks import refresh_ticket


class ReadOnly:
    """Rows that are derived or that belong to the source: looked at, never typed."""

    view_on_site = False  # see supportkg/urls.py

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def follow(request: HttpRequest, tickets: Sequence[int]) -> None:
    """After commit: bring vectors and graph of these tickets (row ids) in line.

    The worker does it; without a broker it is done here and now. The curator is
    told when the graph has to wait.
    """
    Ticket.objects.filter(pk__in=tickets).mark_changed()
    transaction.on_commit(lambda: _refresh(request, tickets))


def _refresh(request: HttpRequest, tickets: Sequence[int]) -> None:
    try:
        for pk in tickets:
            refresh_ticket.delay(pk)
    except BrokerError:
        _refresh_here(request, tickets)


def _refresh_here(request: HttpRequest, tickets: Sequence[int]) -> None:
    try:
        ingest.refresh(tickets)
    except GraphUnavailable:
        text = "Saved. The graph does not answer; it follows with “manage.py sync_graph”."
        messages.warning(request, text)


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    list_display = ("__str__", "name", "source", "tickets")
    list_filter = ("source",)
    search_fields = ("key", "name")
    autocomplete_fields = ("members",)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Project | None = None
    ) -> tuple[str, ...]:
        # They stand on every node of the graph and in every address.
        return ("source", "key") if obj else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Project]:
        return Project.objects.visible_to(request.user).annotate(n=Count("tickets", distinct=True))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        # Django would list every ticket, one by one, to say that they are in the way.
        held = [f"{project}: {n} tickets" for project in objs if (n := project.tickets.count())]
        return [str(project) for project in objs], {"projects": len(objs)}, set(), held

    @admin.display(ordering="n")
    def tickets(self, project: Any) -> int:
        return int(project.n)


@admin.register(Ticket)
class TicketAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("key", "summary", "project", "status", "updated_at", "in_graph")
    list_filter = (
        ("project", admin.RelatedOnlyFieldListFilter),
        "status_category",
        ("synced_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("key", "summary")
    list_select_related = ("project",)
    fields = (
        "console", "rows", "project", "source", "key", "external_id", "type", "summary", "status",
        "status_category", "resolution", "resolution_category", "priority", "labels", "components",
        "reporter", "assignee", "created_at", "updated_at", "resolved_at", "imported_at",
        "synced_at", "raw_text",
    )  # fmt: skip
    readonly_fields = ("console", "rows", "raw_text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Ticket]:
        return Ticket.objects.visible_to(request.user).defer("raw")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        # Django would load every chunk and posting of these tickets to list them.
        tickets = list(objs)
        counts = {"tickets": len(tickets)}
        for model in (Section, Chunk, Posting, Link):
            name = str(model._meta.verbose_name_plural)
            counts[name] = model._default_manager.filter(ticket__in=tickets).count()
        return [f"{ticket.key} {ticket.summary}" for ticket in tickets], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Ticket) -> None:
        self._delete(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Ticket]) -> None:
        self._delete(request, queryset)

    def _delete(self, request: HttpRequest, tickets: Iterable[Ticket]) -> None:
        rows = list(tickets)

        def remove() -> None:
            try:
                ingest.delete(rows)
            except GraphUnavailable:
                messages.warning(
                    request,
                    "Hidden from everybody. The graph does not answer; “manage.py sync_graph” "
                    "finishes the removal.",
                )

        # After the admin's own transaction: a graph cannot be rolled back.
        transaction.on_commit(remove)

    @admin.display(boolean=True, ordering="synced_at")
    def in_graph(self, ticket: Ticket) -> bool:
        return ticket.synced_at is not None

    @admin.display(description="Console")
    def console(self, ticket: Ticket) -> str:
        return format_html('<a href="{}">Open {}</a>', ticket.get_absolute_url(), ticket.key)

    @admin.display(description="Its rows")
    def rows(self, ticket: Ticket) -> str:
        names = ["section", "link", "chunk"]
        links = [
            (reverse(f"admin:tickets_{name}_changelist"), ticket.pk, f"{name}s") for name in names
        ]
        return format_html_join(" · ", '<a href="{}?ticket__id__exact={}">{}</a>', links)

    @admin.display(description="As the source said it")
    def raw_text(self, ticket: Ticket) -> str:
        return format_html("<pre>{}</pre>", json.dumps(ticket.raw, indent=2, ensure_ascii=False))


class OfTicket(admin.ModelAdmin):
    """Rows of one ticket each, of the tickets that the curator may see."""

    list_select_related = ("ticket",)
    show_full_result_count = False
    view_on_site = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        visible = Ticket.objects.visible_to(request.user)
        return rows.filter(ticket__in=visible).select_related("ticket").defer("ticket__raw")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        # The links on a ticket's page.
        return lookup == "ticket__id__exact" or super().lookup_allowed(lookup, value, request)


@admin.register(Section)
class SectionAdmin(OfTicket):
    list_display = ("__str__", "kind", "author", "role", "public", "start")
    list_filter = ("kind", "public", "role")
    search_fields = ("=ticket__key", "text")
    fields = ("console", "ticket", "kind", "ordinal", "text", "public", "author", "role")
    readonly_fields = ("console", "ticket", "kind", "ordinal", "author", "role")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).annotate(start=Left("text", 80)).defer("text")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Section | None = None) -> bool:
        # Fields and the title say what the source says, and some kinds only hold others.
        kind = template().kinds[obj.kind] if obj else None
        own_words = kind is None or kind.embed or kind.kind == "code_block"
        is_title = kind is not None and kind.kind == "summary"
        return own_words and not is_title and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Section, form: Any, change: bool) -> None:
        obj.corrected = obj.corrected or form.has_changed()
        obj.save(update_fields=["text", "public", "corrected"])
        if form.has_changed():
            follow(request, [obj.ticket_id])

    @admin.display(description="text")
    def start(self, section: Any) -> str:
        return str(section.start)

    @admin.display(description="Console")
    def console(self, section: Section) -> str:
        return format_html('<a href="{}">Open {}</a>', section.get_absolute_url(), section)


@admin.register(Chunk)
class ChunkAdmin(ReadOnly, OfTicket):
    list_display = ("ticket", "kind", "ordinal", "model", "text_hash")
    list_filter = ("kind", "model")
    search_fields = ("=ticket__key",)
    fields = ("ticket", "section", "kind", "ordinal", "model", "text_hash", "text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("ticket__raw", "vector", "text")


@admin.register(Posting)
class PostingAdmin(ReadOnly, OfTicket):
    list_display = ("term", "ticket", "own", "every")
    search_fields = ("=term", "=ticket__key")


@admin.register(Link)
class LinkAdmin(ReadOnly, OfTicket):
    list_display = ("from_key", "type", "to_key", "ticket", "origin", "pending")
    list_filter = ("type", "origin", ("other", admin.EmptyFieldListFilter))
    search_fields = ("=from_key", "=to_key")
    fields = ("ticket", "other", "type", "from_key", "to_key", "origin", "label")

    @admin.display(boolean=True, description="waits for its other end")
    def pending(self, link: Link) -> bool:
        return link.other_id is None


@admin.register(SimilarLink)
class SimilarLinkAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("pair", "titles", "score", "model", "state")
    list_filter = ("state", "model", ("first__project", admin.RelatedOnlyFieldListFilter))
    search_fields = ("=first__key", "=second__key")
    list_select_related = ("first", "second")
    show_full_result_count = False
    actions = ("accept", "reject", "propose")

    def get_queryset(self, request: HttpRequest) -> QuerySet[SimilarLink]:
        visible = Ticket.objects.visible_to(request.user)
        rows = SimilarLink.objects.filter(first__in=visible, second__in=visible)
        return rows.select_related("first", "second").defer("first__raw", "second__raw")

    def has_judge_permission(self, request: HttpRequest) -> bool:
        """Actions ask here; the form stays read-only, so that a decision has one door."""
        return bool(request.user.has_perm("tickets.change_similarlink"))

    @admin.action(description="Accept: these tickets are alike", permissions=["judge"])
    def accept(self, request: HttpRequest, queryset: QuerySet[SimilarLink]) -> None:
        self._judge(request, queryset, SimilarLink.State.ACCEPTED)

    @admin.action(description="Reject: these tickets are not alike", permissions=["judge"])
    def reject(self, request: HttpRequest, queryset: QuerySet[SimilarLink]) -> None:
        self._judge(request, queryset, SimilarLink.State.REJECTED)

    @admin.action(description="Take the decision back", permissions=["judge"])
    def propose(self, request: HttpRequest, queryset: QuerySet[SimilarLink]) -> None:
        self._judge(request, queryset, SimilarLink.State.PROPOSED)

    def _judge(
        self, request: HttpRequest, links: QuerySet[SimilarLink], state: SimilarLink.State
    ) -> None:
        with transaction.atomic():
            rows = list(links.exclude(state=state))
            SimilarLink.objects.filter(pk__in=[row.pk for row in rows]).update(state=state)
            ends = {end for row in rows for end in (row.first_id, row.second_id)}
            follow(request, sorted(ends))
            for row in rows:
                self.log_change(request, row, f"state: {row.state} → {state}")
        messages.success(request, f"{len(rows)} links are now {state}.")

    @admin.display(description="tickets", ordering="first__key")
    def pair(self, link: SimilarLink) -> str:
        return f"{link.first.key} ~ {link.second.key}"

    @admin.display
    def titles(self, link: SimilarLink) -> str:
        return format_html("{}<br>{}", link.first.summary, link.second.summary)
