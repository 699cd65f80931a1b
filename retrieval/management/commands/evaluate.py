"""Measure how well the ranking finds the right tickets of a benchmark."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast, get_args

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from rich.console import Console
from rich.progress import Progress

from retrieval.evaluation import golden, report, runs
from supportkg.lib.embeddings import EmbeddingError


class Command(BaseCommand):
    help = (
        "Rank a benchmark's tickets for each of its queries and print MRR, recall, NDCG and time "
        "with 95 % intervals, modes side by side. Imports the tickets first if they are not there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--corpus",
            type=Path,
            required=True,
            metavar="DIR",
            help="folder with tickets.jsonl, queries.jsonl and qrels.jsonl",
        )
        parser.add_argument(
            "--queries", default="queries.jsonl", help="in DIR, or a path (default: %(default)s)"
        )
        parser.add_argument(
            "--qrels", default="qrels.jsonl", help="in DIR, or a path (default: %(default)s)"
        )
        parser.add_argument(
            "--mode",
            action="append",
            choices=list(runs.MODES),
            help="repeatable (default: all); graph is compared with baseline, query by query",
        )
        parser.add_argument(
            "--part",
            default="all",
            choices=get_args(golden.Part),
            help="dev: the earlier half of the queries, to tune on; test: the later half",
        )
        parser.add_argument("--limit", type=int, metavar="N", help="only the first N queries")
        parser.add_argument(
            "--ablation", action="store_true", help="also say what each part of graph mode is worth"
        )
        parser.add_argument(
            "--json", type=Path, metavar="FILE", help="write everything to a new file"
        )
        parser.add_argument(
            "--source", default="default", help="help desk to import into (default: default)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["corpus"]
        target: Path | None = options["json"]
        if target and target.exists():
            raise CommandError(f"{target} exists; name a new file.")
        if target and not target.parent.is_dir():
            raise CommandError(f"{target.parent}: no such folder.")
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit must be at least 1.")
        files = [folder / name for name in ("tickets.jsonl", options["queries"], options["qrels"])]
        try:
            keys = golden.ids(files[0])
            loaded = golden.load(*files[1:])
            loaded.check(keys)
        except golden.GoldenError as error:
            raise CommandError(str(error)) from error
        queries = loaded.part(options["part"])[: options["limit"]]
        if not queries:
            raise CommandError(f"The {options['part']} part of {loaded.qrels.name} is empty.")
        try:
            within = self._corpus(files[0], keys, options["source"])
            self._evaluate(queries, within, files, options)
        except EmbeddingError as error:
            raise CommandError(str(error)) from error
        except OperationalError as error:
            reason = str(error).strip().splitlines()[0]
            raise CommandError(f"PostgreSQL stopped answering: {reason}.") from error

    def _corpus(self, tickets: Path, keys: list[str], source: str) -> runs.Corpus:
        """Import what is not there or has changed, and say what else is in the projects."""
        call_command("import_tickets", tickets, source=source, stdout=self.stdout)
        within = runs.corpus(source, keys)
        if lacking := len(set(keys) - set(within.keys.values())):
            raise CommandError(f"{lacking} tickets of {tickets.name} could not be imported.")
        if within.foreign:
            self.stdout.write(
                f"The projects hold {within.foreign} tickets more than the benchmark. They are "
                "left out of the figures, but scores are standardised with them: for figures to "
                "compare, use a source of its own (--source NAME)."
            )
        return within

    def _evaluate(
        self,
        queries: tuple[golden.Query, ...],
        within: runs.Corpus,
        files: list[Path],
        options: dict[str, Any],
    ) -> None:
        names = [name for name in runs.MODES if name in (options["mode"] or runs.MODES)]
        with Progress(console=Console(stderr=True)) as progress:

            def bar(name: str, passes: int = 1) -> Callable[[], None]:
                task = progress.add_task(name, total=passes * len(queries))
                return lambda: progress.advance(task)

            found = [runs.run(n, runs.MODES[n], queries, within, bar(n)) for n in names]
            parts = runs.ablation(queries, within, bar("parts", 3)) if options["ablation"] else []
        compared = report.comparisons(queries, found)
        ablation = report.compare("parts of graph mode", queries, parts) if parts else None
        console = Console(file=cast(TextIO, self.stdout), width=120)
        console.print(
            f"{len(within.keys)} tickets; {len(queries)} queries ({options['part']} part"
            f"{', limited' if options['limit'] else ''}); model {settings.EMBEDDING_MODEL}. "
            "In brackets: 95 % bootstrap intervals.",
            highlight=False,
        )
        for comparison in compared:
            console.print(report.table(comparison))
        console.print(report.seconds_table(found))
        if ablation:
            console.print(report.ablation_table(ablation))
        if target := options["json"]:
            asked = {name: options[name] for name in ("part", "limit", "source")}
            data = report.to_json(files, asked, within, queries, found, compared, ablation)
            with target.open("x", encoding="utf-8") as file:
                json.dump(data, file, indent=1, ensure_ascii=False)
            self.stdout.write(f"Everything is in {target}.")
