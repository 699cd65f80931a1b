"""Tickets over REST: a list to follow by cursor, and one ticket with tree and links.

Must never happen: a ticket of a project that the token's owner may not see; an
unknown or repeated parameter silently ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core import signing
from django.db.models import Q, QuerySet
from django.urls import reverse
from drf_spectacular.helpers import lazy_serializer
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle

from supportkg.problems import ParameterError, responses

from . import reading
from .models import Section, Ticket

MAX_LIMIT = 100
_SALT = "tickets.cursor"
_COLUMNS = {
    "source": "source",
    "project": "project__key",
    "status": "status_category",
    "updated_since": "updated_at__gte",
}


class ReadThrottle(UserRateThrottle):
    """Reads have a bucket of their own: they cost little."""

    scope = "read"
    rate = "600/min"


class TicketQuery(serializers.Serializer[Any]):
    """The parameters of the list."""

    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, default=50)
    cursor = serializers.CharField(required=False, help_text="`next_cursor` of the page before.")
    source = serializers.CharField(  # type: ignore[assignment]
        required=False, help_text="Name of the help desk."
    )
    project = serializers.CharField(required=False, help_text="Key of the project.")
    status = serializers.ChoiceField(Ticket.StatusCategory.choices, required=False)
    q = serializers.CharField(
        required=False, max_length=200, help_text="Beginning of the key, or words of the title."
    )
    updated_since = serializers.DateTimeField(
        required=False, help_text="Tickets without a time of change are left out."
    )


class OneTicketQuery(serializers.Serializer[Any]):
    """The parameters of one ticket."""

    source = serializers.CharField(  # type: ignore[assignment]
        required=False, help_text="Name of the help desk; needed when several use the key."
    )


class TicketLineSerializer(serializers.ModelSerializer[Ticket]):
    """A ticket in few words."""

    url = serializers.SerializerMethodField(help_text="Of the ticket in this API.")
    html_url = serializers.SerializerMethodField(help_text="Of the ticket in the console.")

    class Meta:
        model = Ticket
        fields: tuple[str, ...] = (*reading.LINE, "url", "html_url")

    def get_url(self, ticket: Ticket) -> str:
        path = reverse("api:ticket", args=[ticket.key])
        return str(self.context["request"].build_absolute_uri(f"{path}?source={ticket.source}"))

    def get_html_url(self, ticket: Ticket) -> str:
        return str(self.context["request"].build_absolute_uri(ticket.get_absolute_url()))


class TicketSerializer(TicketLineSerializer):
    """A ticket with its fields."""

    project = serializers.CharField(source="project.key")

    class Meta(TicketLineSerializer.Meta):
        fields = (
            *TicketLineSerializer.Meta.fields,
            "project", "external_id", "type", "resolution_category", "priority", "labels",
            "components", "reporter", "assignee", "created_at", "updated_at", "resolved_at",
        )  # fmt: skip


class SectionSerializer(serializers.ModelSerializer[Section]):
    """A section. `public` is false for internal notes."""

    anchor = serializers.CharField(help_text="Its place on the console's page, after the #.")
    heading = serializers.CharField()

    class Meta:
        model = Section
        fields = (
            "kind", "ordinal", "anchor", "heading", "text", "author", "role", "public",
            "created_at",
        )  # fmt: skip


class BranchSerializer(serializers.Serializer[Any]):
    """A section with what hangs from it."""

    section = SectionSerializer()
    children = serializers.SerializerMethodField()

    @extend_schema_field(lazy_serializer("tickets.api.BranchSerializer")(many=True))
    def get_children(self, branch: reading.Branch) -> Any:
        return BranchSerializer(branch.children, many=True).data


class RelationSerializer(serializers.Serializer[Any]):
    """An explicit link. `ticket` is null while the other end is not here."""

    type = serializers.CharField()
    words = serializers.CharField(help_text="The link read from this ticket: “is blocked by”.")
    outward = serializers.BooleanField(help_text="Whether this ticket is the start of the link.")
    key = serializers.CharField(help_text="Key at the other end.")
    origin = serializers.ChoiceField(["tracker", "mention"])
    label = serializers.CharField(  # type: ignore[assignment]
        help_text="The tracker's own name for the link."
    )
    ticket = TicketLineSerializer(source="other", allow_null=True)


class LikenessSerializer(serializers.Serializer[Any]):
    """An implicit link: the two titles are close."""

    score = serializers.FloatField(help_text="Cosine of the titles, -1 to 1.")
    model = serializers.CharField()
    state = serializers.ChoiceField(["proposed", "accepted"])
    ticket = TicketLineSerializer(source="other")


class WholeTicketSerializer(TicketSerializer):
    """A ticket with its section tree and its links."""

    sections = serializers.SerializerMethodField()
    explicit_links = serializers.SerializerMethodField()
    implicit_links = serializers.SerializerMethodField()

    class Meta(TicketSerializer.Meta):
        fields = (*TicketSerializer.Meta.fields, "sections", "explicit_links", "implicit_links")

    @extend_schema_field(BranchSerializer(many=True))
    def get_sections(self, ticket: Ticket) -> Any:
        return BranchSerializer(reading.tree(ticket), many=True).data

    @extend_schema_field(RelationSerializer(many=True))
    def get_explicit_links(self, ticket: Ticket) -> Any:
        found = reading.relations(ticket, self.context["request"].user)
        return RelationSerializer(found, many=True, context=self.context).data

    @extend_schema_field(LikenessSerializer(many=True))
    def get_implicit_links(self, ticket: Ticket) -> Any:
        found = reading.likenesses(ticket, self.context["request"].user)
        return LikenessSerializer(found, many=True, context=self.context).data


class TicketPageSerializer(serializers.Serializer[Any]):
    """A page of tickets. Go on with `cursor=next_cursor` while `has_more`."""

    results = TicketSerializer(many=True)
    has_more = serializers.BooleanField()
    next_cursor = serializers.CharField(
        allow_null=True, help_text="Given on the last page too: later changes come after it."
    )


@extend_schema(
    operation_id="list_tickets",
    tags=["tickets"],
    parameters=[TicketQuery],
    responses={200: TicketPageSerializer, **responses(400, 401, 429)},
)
@api_view(["GET"])
@throttle_classes([ReadThrottle])
def tickets(request: Request) -> Response:
    """Tickets that you may see, in the order in which they last changed here.

    A client that remembers `next_cursor` gets every later change once more.
    """
    given = parameters(request, TicketQuery)
    rows: QuerySet[Ticket] = Ticket.objects.visible_to(request.user)
    rows = rows.select_related("project").defer("raw")
    rows = rows.filter(**{_COLUMNS[name]: given[name] for name in _COLUMNS if name in given})
    if "q" in given:
        rows = reading.search(rows, given["q"])
    if "cursor" in given:
        rows = rows.filter(_after(given["cursor"]))
    found = list(rows.order_by("imported_at", "id")[: given["limit"] + 1])
    page = found[: given["limit"]]
    body = {
        "results": page,
        "has_more": len(found) > len(page),
        "next_cursor": _cursor(page[-1]) if page else given.get("cursor"),
    }
    return Response(TicketPageSerializer(body, context={"request": request}).data)


@extend_schema(
    operation_id="get_ticket",
    tags=["tickets"],
    parameters=[OneTicketQuery],
    responses={200: WholeTicketSerializer, **responses(400, 401, 404, 429)},
)
@api_view(["GET"])
@throttle_classes([ReadThrottle])
def ticket(request: Request, key: str) -> Response:
    """A ticket with its section tree and links."""
    given = parameters(request, OneTicketQuery)
    found: QuerySet[Ticket] = reading.find(request.user, key, given.get("source", ""))
    rows = list(found.defer("raw"))
    if not rows:
        raise NotFound
    if len(rows) > 1:
        sources = ", ".join(sorted(row.source for row in rows))
        raise ParameterError(
            {"source": f"Several help desks use this key; name one of: {sources}."}
        )
    return Response(WholeTicketSerializer(rows[0], context={"request": request}).data)


def parameters(request: Request, query: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """The checked query parameters. Raises ParameterError, also for unknown or repeated ones."""
    wrong = {}
    for name, values in request.query_params.lists():
        if name not in query().fields:
            wrong[name] = ["There is no such parameter."]
        elif len(values) > 1:
            wrong[name] = ["Given more than once."]
    if wrong:
        raise ParameterError(wrong)
    checked = query(data=request.query_params)
    if not checked.is_valid():
        raise ParameterError(checked.errors)
    return dict(checked.validated_data)


def _cursor(ticket: Ticket) -> str:
    return signing.dumps([ticket.imported_at.isoformat(), ticket.pk], salt=_SALT)


def _after(cursor: str) -> Q:
    """What comes after a cursor in (imported_at, id)."""
    try:
        at, pk = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature:
        raise ParameterError({"cursor": "Not a cursor of this list."}) from None
    when = datetime.fromisoformat(at)
    return Q(imported_at__gte=when) & (Q(imported_at__gt=when) | Q(pk__gt=pk))
