"""Answers in the admin: to look at, to count by route, and to erase.

Must never happen: an answer changed after it was given.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from tickets.admin import ReadOnly

from . import reading
from .models import Answer, Citation


class CitationInline(ReadOnly, admin.TabularInline):
    model = Citation
    fields = ("number", "ticket", "anchor", "quote", "public")
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Citation]:
        return super().get_queryset(request).select_related("ticket").defer("ticket__raw")


@admin.register(Answer)
class AnswerAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("__str__", "route", "mode", "asked_by", "created_at")
    list_filter = ("route", "mode", "created_at")
    search_fields = ("question",)
    list_select_related = ("asked_by",)
    date_hierarchy = "created_at"
    fields = (
        "console", "question", "asked_by", "created_at", "mode", "route", "text", "rungs",
        "analysis", "cypher", "cypher_parameters", "ranking", "embedding_model", "seconds",
    )  # fmt: skip
    readonly_fields = ("console",)
    inlines = (CitationInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Answer]:
        return reading.readable(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    @admin.display(description="Console")
    def console(self, answer: Answer) -> str:
        return format_html('<a href="{}">Open the answer</a>', answer.get_absolute_url())


@admin.register(Citation)
class CitationAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("answer", "number", "ticket", "anchor", "public")
    list_filter = ("public",)
    search_fields = ("=ticket__key", "quote")
    list_select_related = ("answer", "ticket")
    show_full_result_count = False
    fields = ("answer", "number", "ticket", "section", "anchor", "quote", "public")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Citation]:
        rows = Citation.objects.filter(answer__in=reading.readable(request.user))
        return rows.select_related("answer", "ticket").defer("ticket__raw")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Only together with its answer, which asks here.
        return bool(request.user.has_perm("retrieval.delete_answer"))
