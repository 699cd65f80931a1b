"""Answers over REST: ask, and read again.

Must never happen: somebody else's answer; a token that can cost without limit.
"""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle

from supportkg.problems import responses
from tickets.api import ReadThrottle, TicketLineSerializer, parameters

from . import pipeline, reading
from .models import Answer, Citation
from .query import MAX_QUESTION


class AnswerThrottle(UserRateThrottle):
    """Answers cost seconds of work; they have a bucket of their own."""

    scope = "answers"
    rate = "30/min"


class QuestionSerializer(serializers.Serializer[Any]):
    """A question. `mode` chooses the graph or the text baseline."""

    question = serializers.CharField(max_length=MAX_QUESTION)
    mode = serializers.ChoiceField(Answer.Mode.choices, default=Answer.Mode.GRAPH)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if unknown := sorted(set(self.initial_data) - set(self.fields)):
            raise serializers.ValidationError(dict.fromkeys(unknown, "There is no such field."))
        return attrs

    def validate_question(self, question: str) -> str:
        # JSON can spell half of a character, and no database takes it.
        if any("\ud800" <= character <= "\udfff" for character in question):
            raise serializers.ValidationError("It holds half of a surrogate pair.")
        return question


class CitationSerializer(serializers.ModelSerializer[Citation]):
    """The passage that [n] stands for."""

    ticket = TicketLineSerializer()
    section = serializers.CharField(
        source="section.kind", default="", help_text="Kind of the section; empty when it is gone."
    )
    html_url = serializers.SerializerMethodField(help_text="The section in the console.")

    class Meta:
        model = Citation
        fields = ("number", "ticket", "section", "anchor", "quote", "public", "html_url")

    def get_html_url(self, citation: Citation) -> str:
        return str(self.context["request"].build_absolute_uri(citation.get_absolute_url()))


class RungSerializer(serializers.Serializer[Any]):
    """One way to an answer that was tried."""

    rung = serializers.ChoiceField(list(reading.RUNGS))
    answered = serializers.BooleanField()
    reason = serializers.CharField(help_text="Code of why it was left; empty when it answered.")
    words = serializers.CharField(help_text="The same for people.")


class ContributionSerializer(serializers.Serializer[Any]):
    """A part of a ticket's score."""

    part = serializers.CharField()
    contribution = serializers.FloatField(help_text="The contributions add up to the score.")
    value = serializers.FloatField(
        allow_null=True, help_text="Before weighing: a cosine, or a BM25 score for “lexical”."
    )


class RankedSerializer(serializers.Serializer[Any]):
    """A ticket near the question, with what made its score."""

    ticket = TicketLineSerializer()
    score = serializers.FloatField()
    contributions = ContributionSerializer(source="segments", many=True)
    closeness = serializers.FloatField(help_text="Best cosine of any part, -1 to 1.")
    exact = serializers.BooleanField(help_text="It holds an identifier of the question.")
    named = serializers.BooleanField(help_text="The question names it.")


class AnswerSerializer(serializers.ModelSerializer[Answer]):
    """An answer with its citations and everything that led to it."""

    url = serializers.SerializerMethodField()
    html_url = serializers.SerializerMethodField(help_text="The answer in the console.")
    declined = serializers.BooleanField()
    contains_internal = serializers.BooleanField(
        help_text="It quotes a note that customers must not see."
    )
    citations = CitationSerializer(many=True)
    rungs = serializers.SerializerMethodField()
    ranking = serializers.SerializerMethodField()

    class Meta:
        model = Answer
        fields = (
            "id", "url", "html_url", "question", "mode", "route", "declined", "text",
            "contains_internal", "citations", "rungs", "analysis", "ranking", "cypher",
            "cypher_parameters", "embedding_model", "seconds", "created_at",
        )  # fmt: skip

    def get_url(self, answer: Answer) -> str:
        path = reverse("api:answer", args=[answer.pk])
        return str(self.context["request"].build_absolute_uri(path))

    def get_html_url(self, answer: Answer) -> str:
        return str(self.context["request"].build_absolute_uri(answer.get_absolute_url()))

    @extend_schema_field(RungSerializer(many=True))
    def get_rungs(self, answer: Answer) -> Any:
        return RungSerializer(reading.rungs(answer), many=True).data

    @extend_schema_field(RankedSerializer(many=True))
    def get_ranking(self, answer: Answer) -> Any:
        found = reading.ranked(answer, self.context["request"].user)
        return RankedSerializer(found, many=True, context=self.context).data


@extend_schema(
    operation_id="create_answer",
    tags=["answers"],
    request=QuestionSerializer,
    responses={201: AnswerSerializer, **responses(400, 401, 429, 503)},
)
@api_view(["POST"])
@throttle_classes([AnswerThrottle])
def answers(request: Request) -> Response:
    """Ask. The answer is in the reply and stays at its `Location`."""
    parameters(request, serializers.Serializer)
    given = QuestionSerializer(data=request.data)
    given.is_valid(raise_exception=True)
    question, mode = given.validated_data["question"], given.validated_data["mode"]
    try:
        new = pipeline.answer(question, user=request.user, mode=mode)
    except pipeline.QuestionError as error:
        raise ValidationError({"question": [str(error)]}) from error
    body = _body(request, new.pk)
    return Response(body, status=201, headers={"Location": body["url"]})


@extend_schema(
    operation_id="get_answer",
    tags=["answers"],
    responses={200: AnswerSerializer, **responses(400, 401, 404, 429)},
)
@api_view(["GET"])
@throttle_classes([ReadThrottle])
def answer(request: Request, pk: Any) -> Response:
    """An answer of your own, as it was given."""
    parameters(request, serializers.Serializer)
    return Response(_body(request, pk))


def _body(request: Request, pk: Any) -> dict[str, Any]:
    row = get_object_or_404(reading.with_citations(reading.readable(request.user)), pk=pk)
    return dict(AnswerSerializer(row, context={"request": request}).data)
