"""The answer desk: ask, read the cited answer, and find it again.

Promises that asking works without JavaScript too.
Must never happen: somebody else's answer on the page.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from tickets.models import Ticket

from . import pipeline, reading
from .models import Answer
from .query import MAX_QUESTION

PER_PAGE = 25
# A title longer than this makes no good example.
EXAMPLE_TITLE = 70
EXAMPLES = {
    "fix_solution": "What fixed “{summary}”?",
    "steps_to_reproduce": "How do I reproduce “{summary}”?",
    "workaround": "Is there a workaround for {key}?",
}


class QuestionForm(forms.Form):
    """A question and the way to answer it."""

    question = forms.CharField(
        max_length=MAX_QUESTION,
        widget=forms.Textarea,
        error_messages={
            "required": "Write a question first.",
            "max_length": "The question has %(show_value)d characters; "
            "at most %(limit_value)d are read.",
        },
    )
    mode = forms.ChoiceField(choices=Answer.Mode.choices, initial=Answer.Mode.GRAPH)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def ask(request: HttpRequest) -> HttpResponse:
    """The empty desk, or a new answer."""
    if request.method != "POST":
        form = QuestionForm(initial={"question": request.GET.get("question", "")})
        return render(request, "retrieval/ask.html", _desk(request, form))
    form = QuestionForm({"mode": Answer.Mode.GRAPH, **request.POST.dict()})
    if form.is_valid():
        given = form.cleaned_data
        try:
            new = pipeline.answer(given["question"], user=request.user, mode=given["mode"])
        except pipeline.QuestionError as error:
            form.add_error("question", str(error))
        else:
            return redirect(new)
    return render(request, "retrieval/ask.html", _desk(request, form), status=422)


@require_safe
@login_required
def answers(request: HttpRequest) -> HttpResponse:
    """The reader's questions, newest first."""
    rows = reading.readable(request.user).filter(asked_by=request.user.pk)
    rows = rows.only("question", "route", "mode", "created_at")
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "retrieval/answers.html", {"page": page})


@require_safe
@login_required
def answer(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One answer with its sources and the way to it."""
    row = get_object_or_404(reading.with_citations(reading.readable(request.user)), pk=pk)
    context = {
        "answer": row,
        "form": QuestionForm(initial={"question": row.question, "mode": row.mode}),
        "rungs": reading.rungs(row),
        "ranked": reading.ranked(row, request.user),
        "times": reading.times(row),
    }
    return render(request, "retrieval/answer.html", context)


def _desk(request: HttpRequest, form: QuestionForm) -> dict[str, Any]:
    """What the empty desk shows."""
    mine = reading.readable(request.user).filter(asked_by=request.user.pk)
    tickets = Ticket.objects.visible_to(request.user)
    return {
        "form": form,
        "count": tickets.count(),
        "examples": _examples(tickets),
        "recent": mine.only("question", "route", "created_at")[:5],
    }


def _examples(tickets: QuerySet[Ticket]) -> list[str]:
    """A question of each kind about tickets that are there and hold the answer."""
    short = tickets.annotate(length=Length("summary")).filter(length__range=(15, EXAMPLE_TITLE))
    found = []
    for kind, words in EXAMPLES.items():
        row = short.filter(sections__kind=kind).only("key", "summary").first()
        if row:
            found.append(words.format(key=row.key, summary=row.summary.rstrip(" .")))
    linked = tickets.filter(links__other__in=tickets, links__type="RELATES_TO")
    if key := linked.values_list("key", flat=True).first():
        found.append(f"Which tickets are related to {key}?")
    return found
