"""Ticket pages of the console.

Must never happen: a ticket of a project that the reader may not see, in a list,
a link or a status code that differs from "not there".
"""

from __future__ import annotations

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from . import reading
from .models import Project, Ticket

PER_PAGE = 25


class Filters(forms.Form):
    """What the ticket list is narrowed by; all of it is optional."""

    q = forms.CharField(required=False, max_length=200)
    project = forms.ModelChoiceField(Project.objects.none(), required=False)
    status = forms.ChoiceField(
        choices=[("", "Any status"), *Ticket.StatusCategory.choices], required=False
    )


@require_safe
@login_required
def tickets(request: HttpRequest) -> HttpResponse:
    """Search and filter, most recently changed first."""
    projects = Project.objects.visible_to(request.user)
    filters = Filters(request.GET)
    filters.fields["project"].queryset = projects  # type: ignore[attr-defined]
    found: QuerySet[Ticket] = Ticket.objects.visible_to(request.user)
    if filters.is_valid():
        given = filters.cleaned_data
        found = reading.search(found, given["q"])
        if given["project"]:
            found = found.filter(project=given["project"])
        if given["status"]:
            found = found.filter(status_category=given["status"])
    columns = (*reading.LINE, "priority", "updated_at", "project__source", "project__key")
    rows = found.select_related("project").only(*columns)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    kept = request.GET.copy()
    kept.pop("page", None)
    context = {
        "page": page,
        "filters": filters,
        "projects": projects,
        "statuses": Ticket.StatusCategory.choices,
        "kept": kept.urlencode(),
    }
    return render(request, "tickets/tickets.html", context)


@require_safe
@login_required
def ticket(request: HttpRequest, source: str, key: str) -> HttpResponse:
    """One ticket: its tree, explicit links and implicit links."""
    found = reading.find(request.user, key, source)
    row = get_object_or_404(found.defer("raw"))
    context = {
        "ticket": row,
        "tree": reading.tree(row),
        "relations": reading.relations(row, request.user),
        "likenesses": reading.likenesses(row, request.user),
    }
    return render(request, "tickets/ticket.html", context)


@require_safe
@login_required
def raw(request: HttpRequest, source: str, key: str) -> JsonResponse:
    """What the source said, untouched."""
    row = get_object_or_404(reading.find(request.user, key, source))
    return JsonResponse(row.raw, json_dumps_params={"indent": 2, "ensure_ascii": False})
