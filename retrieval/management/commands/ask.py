"""Ask a question on the command line."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from retrieval import pipeline
from retrieval.models import Answer
from supportkg.lib.embeddings import EmbeddingError


class Command(BaseCommand):
    help = "Answer a question from the imported tickets, with citations."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question", help="the question, in quotes")
        parser.add_argument("--mode", choices=Answer.Mode.values, default=Answer.Mode.GRAPH)
        parser.add_argument("--json", action="store_true", help="print everything as JSON")
        parser.add_argument(
            "--as",
            dest="username",
            metavar="USERNAME",
            help="see only what this person may see (default: everything)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = None
        if options["username"]:
            user = get_user_model().objects.filter(username=options["username"]).first()
            if user is None:
                raise CommandError(f"There is no user '{options['username']}'.")
        try:
            answer = pipeline.answer(options["question"], user=user, mode=options["mode"])
        except (pipeline.QuestionError, EmbeddingError) as error:
            raise CommandError(str(error)) from error
        except OperationalError as error:
            reason = str(error).strip().splitlines()[0]
            raise CommandError(f"PostgreSQL does not answer: {reason}") from error
        self.stdout.write(as_json(answer) if options["json"] else as_text(answer))


def as_text(answer: Answer) -> str:
    """The answer, its sources, the rungs that led to it, and the Cypher that ran."""
    lines = [answer.text, ""]
    if citations := list(answer.citations.select_related("ticket")):
        lines.append("Sources")
        lines += [
            f"  [{c.number}] {c.ticket.key}, {c.anchor.replace('_', ' ')}"
            f"{'' if c.public else ' (internal note)'}"
            for c in citations
        ]
        lines.append("")
    lines.append(f"Route: {answer.get_route_display()}")
    lines += [
        f"  {rung['rung']} left: {rung['reason']} {rung['detail']}".rstrip()
        for rung in answer.rungs
        if rung["outcome"] == "left"
    ]
    if answer.cypher:
        lines += ["Cypher that ran", *(f"  {line}" for line in answer.cypher.splitlines())]
    lines.append(f"Time: {answer.seconds.get('total', 0):.2f} s")
    return "\n".join(lines)


def as_json(answer: Answer) -> str:
    names = ("question", "mode", "route", "text", "rungs", "analysis", "ranking", "cypher",
             "cypher_parameters", "embedding_model", "seconds")  # fmt: skip
    citations = [
        {
            "number": c.number,
            "ticket": c.ticket.key,
            "anchor": c.anchor,
            "quote": c.quote,
            "public": c.public,
        }
        for c in answer.citations.select_related("ticket")
    ]
    data = {"id": str(answer.pk), **{name: getattr(answer, name) for name in names}}
    return json.dumps({**data, "citations": citations}, ensure_ascii=False, indent=2)
