"""The structure of a ticket, read from ``ticket_template.yaml``.

Promises that parser, graph, prompts and the Cypher gate all speak of the same
kinds, labels and relationships: each of them asks here and nowhere else.
Must never happen: a label, relationship type or property name that reaches
Cypher and does not come from this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE_PATH = Path(__file__).with_name("ticket_template.yaml")
ROOT = "ticket"
ROOT_LABEL = "Ticket"
# Every node of layer one also carries this label, so that one constraint and
# one index serve all kinds.
SECTION_LABEL = "Section"
SIMILAR_TO = "SIMILAR_TO"
UNDIRECTED = frozenset({"RELATES_TO", SIMILAR_TO})

TICKET_PROPERTIES = frozenset(
    {"id", "key", "project", "source", "status_category", "created_at", "updated_at", "resolved_at"}
)
SECTION_PROPERTIES = frozenset(
    {"id", "ticket", "project", "kind", "ordinal", "text", "public", "author", "role", "created_at"}
)
LINK_PROPERTIES = frozenset({"origin", "label"})
SIMILAR_PROPERTIES = frozenset({"score", "model", "state"})

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class TemplateError(ValueError):
    """The template file is wrong; the message names the entry and the key."""


@dataclass(frozen=True)
class SectionKind:
    """One kind of section: a node label and the relationship that leads to it."""

    kind: str
    label: str
    relationship: str
    parent: str
    description: str
    many: bool = False
    embed: bool = False
    field: str = ""
    headings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkKind:
    """One type of explicit relationship between tickets, with its wordings."""

    type: str
    description: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """The whole declaration; ``kinds`` is in file order, parents before children."""

    kinds: dict[str, SectionKind]
    links: dict[str, LinkKind]
    unrelated: frozenset[str]

    def path(self, kind: str) -> tuple[SectionKind, ...]:
        """The kinds from the ticket's child down to ``kind`` itself."""
        steps: list[SectionKind] = []
        while kind != ROOT:
            steps.append(self.kinds[kind])
            kind = self.kinds[kind].parent
        return tuple(reversed(steps))

    def children(self, kind: str) -> tuple[SectionKind, ...]:
        """The kinds that hang directly from ``kind`` (or from ``ticket``)."""
        return tuple(k for k in self.kinds.values() if k.parent == kind)

    @property
    def by_heading(self) -> dict[str, str]:
        """Heading (lower case, without punctuation) → kind."""
        return {h: k.kind for k in self.kinds.values() for h in k.headings}

    @property
    def labels(self) -> dict[str, frozenset[str]]:
        """Label → property names, for every label that may stand in Cypher."""
        every = {k.label: SECTION_PROPERTIES for k in self.kinds.values()}
        return {ROOT_LABEL: TICKET_PROPERTIES, SECTION_LABEL: SECTION_PROPERTIES, **every}

    @property
    def relationships(self) -> dict[str, tuple[str, str]]:
        """Relationship type → (label of its start, label of its end)."""
        inside = {k.relationship: (self._label(k.parent), k.label) for k in self.kinds.values()}
        between = dict.fromkeys((*self.links, SIMILAR_TO), (ROOT_LABEL, ROOT_LABEL))
        return {**inside, **between}

    def relationship_properties(self, name: str) -> frozenset[str]:
        """The property names that relationships of type ``name`` carry."""
        if name == SIMILAR_TO:
            return SIMILAR_PROPERTIES
        return LINK_PROPERTIES if name in self.links else frozenset()

    def link(self, wording: str) -> tuple[str, bool] | None:
        """What a tracker's wording means: (type, ``True`` when it reads forward).

        ``None`` when the wording says the tickets are unrelated. A wording that
        nobody declared is a RELATES_TO; the caller keeps the wording itself.
        """
        words = " ".join(wording.casefold().split())
        if words in self.unrelated:
            return None
        for link in self.links.values():
            if words in link.forward:
                return link.type, True
            if words in link.backward:
                return link.type, False
        return "RELATES_TO", True

    def _label(self, kind: str) -> str:
        return ROOT_LABEL if kind == ROOT else self.kinds[kind].label


@cache
def template() -> Template:
    """The template in the repository, read once per process."""
    return load(TEMPLATE_PATH)


def load(path: Path) -> Template:
    """Read and check a template file. Raises TemplateError with entry and key."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    kinds: dict[str, SectionKind] = {}
    for kind, entry in data["kinds"].items():
        kinds[kind] = _kind(kind, entry, known={ROOT, *kinds})
    _refuse_twins("relationship", [k.relationship for k in kinds.values()] + list(data["links"]))
    _refuse_twins("label", [k.label for k in kinds.values()] + [ROOT_LABEL, SECTION_LABEL])
    links = {name: _link(name, entry) for name, entry in data["links"].items()}
    _refuse_twins("wording", [w for k in links.values() for w in (*k.forward, *k.backward)])
    return Template(kinds, links, frozenset(data.get("unrelated", ())))


def _kind(kind: str, entry: dict[str, Any], known: set[str]) -> SectionKind:
    for name in ("label", "relationship", "parent", "description"):
        if name not in entry:
            raise TemplateError(f"kinds.{kind}: '{name}' is missing")
    for name in ("label", "relationship"):
        _check_name(f"kinds.{kind}.{name}", entry[name])
    if entry["parent"] not in known:
        raise TemplateError(f"kinds.{kind}.parent: '{entry['parent']}' is not declared above it")
    unknown = set(entry) - set(SectionKind.__dataclass_fields__)
    if unknown:
        raise TemplateError(f"kinds.{kind}: unknown key '{min(unknown)}'")
    headings = tuple(h for words in entry.get("headings", {}).values() for h in words)
    return SectionKind(kind=kind, **{**entry, "headings": headings})


def _link(name: str, entry: dict[str, Any]) -> LinkKind:
    _check_name(f"links.{name}", name)
    return LinkKind(name, entry["description"], tuple(entry["forward"]), tuple(entry["backward"]))


def _check_name(where: str, name: str) -> None:
    # fullmatch: a "$" would let a trailing newline through into Cypher.
    if not _NAME.fullmatch(name):
        raise TemplateError(f"{where}: '{name}' is not a plain name (letters, digits, _)")


def _refuse_twins(what: str, names: list[str]) -> None:
    twins = {n for n in names if names.count(n) > 1}
    if twins:
        raise TemplateError(f"{what} '{min(twins)}' is declared twice")
