"""The gate without a server: what it refuses, what it lets through and as what."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphglot.dialect.neo4j import Neo4j
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval import cypher
from retrieval.cypher import CypherRefused, check, extract, grammar
from retrieval.cypher.cover import Cover
from retrieval.cypher.permission import is_covered

DATA = Path(__file__).parent.parent / "data"
ACCEPTED = yaml.safe_load((DATA / "cypher_accepted.yaml").read_text(encoding="utf-8"))
REFUSED = yaml.safe_load((DATA / "cypher_refused.yaml").read_text(encoding="utf-8"))


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


def _code(text: str, **arguments: Any) -> str:
    with pytest.raises(CypherRefused) as refusal:
        check(text, projects=["A"], **arguments)
    return refusal.value.code


# -- The tables ---------------------------------------------------------------


def test_tables_are_long_enough() -> None:
    assert len({_name(e) for e in REFUSED}) >= 75
    assert len({_name(e) for e in ACCEPTED}) >= 70


@pytest.mark.parametrize("entry", REFUSED, ids=_name)
def test_check_refuses(entry: dict[str, Any]) -> None:
    with pytest.raises(CypherRefused) as refusal:
        check(entry["cypher"], projects=["A"])
    assert refusal.value.code == entry["code"], str(refusal.value)
    assert len(str(refusal.value)) > 10


@pytest.mark.parametrize("entry", ACCEPTED, ids=_name)
def test_check_accepts(entry: dict[str, Any]) -> None:
    checked = check(entry["cypher"], projects=["A"], parameters=entry.get("parameters"))
    assert is_covered(grammar.parse(checked.text))
    assert int(re.search(r" LIMIT (\d+)$", checked.text)[1]) <= 200  # type: ignore[index]
    assert checked.parameters == {**entry.get("parameters", {}), "projects": ["A"]}
    assert checked.original == entry["cypher"]


def test_every_code_is_refused_for_something() -> None:
    codes = {e["code"] for e in REFUSED}
    assert codes | {"UNCOVERED"} == set(cypher.REFUSALS)


# -- The permission -----------------------------------------------------------


def test_permission_stands_on_named_and_anonymous_nodes() -> None:
    text = check("MATCH (t:Ticket)-[:HAS_SUMMARY]->(:Summary) RETURN t.key", projects=["A"]).text
    assert text == (
        "MATCH (t :Ticket) -[:HAS_SUMMARY]-> (_1 :Summary) "
        "WHERE t.project IN $projects AND _1.project IN $projects RETURN t.key LIMIT 200"
    )


@pytest.mark.parametrize("before", ["t.key = 'x'", "t.key IN $keys", "t.key IN ['x']", "NOT true"])
def test_permission_is_out_of_reach_of_an_or(before: str) -> None:
    query = f"MATCH (t:Ticket) WHERE {before} OR true RETURN t.key"
    text = check(query, projects=["A"], parameters={"keys": []}).text
    condition = before.replace("true", "TRUE")
    assert f"WHERE t.project IN $projects AND ({condition} OR TRUE) RETURN" in text


def test_permission_stands_on_the_nodes_inside_a_path() -> None:
    text = check("MATCH (t:Ticket)-[:BLOCKS*1..3]->(o:Ticket) RETURN o.key", projects=["A"]).text
    assert "all(_n IN NODES(_1) WHERE _n.project IN $projects)" in text


def test_permission_stands_inside_optional_match_and_not_behind_it() -> None:
    text = check(
        "MATCH (t:Ticket) OPTIONAL MATCH (t)-[:HAS_FIX_SOLUTION]->(f) RETURN f.text",
        projects=["A"],
    ).text
    optional = text.partition("OPTIONAL MATCH")[2]
    assert "f.project IN $projects" in optional.partition("RETURN")[0]


def test_permission_is_put_on_a_name_again_after_with_gave_it_away() -> None:
    text = check(
        "MATCH (t:Ticket)-[:BLOCKS]->(o:Ticket) WITH o AS t MATCH (t)--(s:Section) RETURN s.text",
        projects=["A"],
    ).text
    assert "WHERE t.project IN $projects AND s.project IN $projects" in text.partition("WITH")[2]


def test_projects_of_two_askers_do_not_mix() -> None:
    query = "MATCH (t:Ticket) RETURN t.key"
    mine = ["A"]
    first, second = check(query, projects=mine), check(query, projects=["B", "C"])
    mine.append("Z")
    assert first.parameters == {"projects": ["A"]}
    assert second.parameters == {"projects": ["B", "C"]}


def test_projects_as_one_string_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="list"):
        check("RETURN 1 AS x", projects="ABC")


def test_projects_among_the_parameters_is_refused() -> None:
    assert _code("RETURN 1 AS x", parameters={"projects": ["B"]}) == "RESERVED_PARAMETER"


@pytest.mark.parametrize("entry", ACCEPTED, ids=_name)
def test_is_covered_notices_every_missing_permission(entry: dict[str, Any]) -> None:
    text = check(entry["cypher"], projects=["A"], parameters=entry.get("parameters")).text
    for found in re.finditer(r"\w+\.project IN \$projects", text):
        weaker = text[: found.start()] + "true" + text[found.end() :]
        assert not is_covered(grammar.parse(weaker)), weaker


@pytest.mark.parametrize(
    "text",
    [
        "MATCH (t:Ticket) RETURN t.key",
        "MATCH (t:Ticket) WHERE t.project IN $projects OR true RETURN t.key",
        "MATCH (t:Ticket) WHERE NOT t.project IN $projects RETURN t.key",
        "MATCH (t:Ticket) WHERE (t.project IN $projects) RETURN t.key",
        "MATCH (t:Ticket) WHERE t.project IN $projects AND (t)--(:Comment) RETURN t.key",
        "MATCH (t:Ticket) WHERE t.project IN $project RETURN t.key",
        "MATCH (t:Ticket)-[:BLOCKS*2]->(o) WHERE t.project IN $projects AND o.project IN $projects "
        "RETURN t.key",
    ],
)
def test_is_covered_is_not_taken_in_by(text: str) -> None:
    assert not is_covered(grammar.parse(text))


def test_check_refuses_when_the_permission_was_not_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cover, "statement", lambda self, tree: None)
    assert _code("MATCH (t:Ticket) RETURN t.key") == "UNCOVERED"


# -- Limits, parameters and messages ------------------------------------------


@pytest.mark.parametrize(
    ("asked", "got"), [("", 20), (" LIMIT 5", 5), (" LIMIT 20", 20), (" LIMIT 999", 20)]
)
def test_limit_is_put_in_or_lowered(asked: str, got: int) -> None:
    query = f"MATCH (t:Ticket) RETURN t.key ORDER BY t.key SKIP 1{asked}"
    text = check(query, projects=["A"], max_rows=20).text
    assert text.endswith(f"ORDER BY t.key OFFSET 1 LIMIT {got}")


def test_max_hops_bounds_paths() -> None:
    query = "MATCH (t:Ticket)-[:BLOCKS*1..6]->(o:Ticket) RETURN o.key"
    assert _code(query) == "VARIABLE_LENGTH"
    assert "*..6" in check(query, projects=["A"], max_hops=6).text


def test_parameters_are_passed_on() -> None:
    query = "MATCH (t:Ticket) WHERE t.key = $key RETURN t.key"
    checked = check(query, projects=["A"], parameters={"key": "A-1", "unused": 1})
    assert checked.parameters == {"key": "A-1", "unused": 1, "projects": ["A"]}


def test_refusal_of_a_direction_shows_the_right_one() -> None:
    with pytest.raises(CypherRefused, match=r"\(:Ticket\)-\[:HAS_SUMMARY\]->\(:Summary\)"):
        check("MATCH (s:Summary)-[:HAS_SUMMARY]->(t:Ticket) RETURN t.key", projects=["A"])


def test_refusal_of_a_name_lists_the_names_there_are() -> None:
    with pytest.raises(CypherRefused, match=r"'Bug' does not exist.*Summary.*FixSolution"):
        check("MATCH (b:Bug) RETURN b.id", projects=["A"])
    with pytest.raises(CypherRefused, match=r"'title'.*of Ticket: created_at, id, key"):
        check("MATCH (t:Ticket) RETURN t.title", projects=["A"])


def test_text_of_strings_is_kept_while_the_query_around_is_normalised() -> None:
    text = check("MATCH （s：Summary） WHERE s.text = 'ＡＢＣ ﬁ' RETURN s.id", projects=["A"]).text
    assert "(s :Summary)" in text
    assert "'ＡＢＣ ﬁ'" in text


@pytest.mark.parametrize("entry", ACCEPTED, ids=_name)
def test_parse_reads_the_same_as_without_its_memory(entry: dict[str, Any]) -> None:
    class Forgetful(grammar._Parser):
        try_parse = Neo4j.Parser.try_parse

    text = check(entry["cypher"], projects=["A"], parameters=entry.get("parameters")).text
    dialect = Neo4j()
    if "CASE" not in text:  # takes the forgetful parser seconds
        assert Forgetful(dialect=dialect).parse(dialect.tokenize(text), text) == [
            grammar.parse(text)
        ]


def test_check_is_quick_for_brackets_in_brackets() -> None:
    brackets = "(" * 10 + "t.key = 'A'" + ")" * 10
    before = time.process_time()
    check(f"MATCH (t:Ticket) WHERE {brackets} OR {brackets} RETURN t.key", projects=["A"])
    # Without the parser's memory this is minutes.
    assert time.process_time() - before < 5


# -- Taking the query out of a reply ------------------------------------------

QUERY = "MATCH (t:Ticket)\nRETURN t.key"


@pytest.mark.parametrize(
    "reply",
    [
        QUERY,
        f"  {QUERY};\n",
        f"```cypher\n{QUERY}\n```",
        f"```\n{QUERY};\n```",
        f"```cypher\r\n{QUERY}\r\n```",
        f"Here is the query:\n\n```cypher\n{QUERY}\n```\nIt returns the keys.",
        f"```cypher\n{QUERY}",
        f"```json\n{{}}\n```\n```cypher\n{QUERY}\n```",
        f"<think>Maybe MATCH (n) DELETE n?\n</think>\n{QUERY}",
        f"<think>```cypher\nMATCH (n) RETURN n\n```</think>{QUERY}",
        f"It was cut off here: MATCH (x)</think>\n\n{QUERY}",
        f"Cypher: {QUERY}",
        f"Cypher query: {QUERY}",
        f"Answer:\n{QUERY}",
        f"Match all tickets and return their keys:\n{QUERY}",
        f"{QUERY}\n\nThis query returns the keys.",
        f"`{QUERY}`",
        "MATCH (t:Ticket)\n\nRETURN t.key\n\nThis returns the keys.",
    ],
)
def test_extract_takes_the_query_out_of(reply: str) -> None:
    assert " ".join(extract(reply).split()) == "MATCH (t:Ticket) RETURN t.key"


def test_extract_does_not_cut_a_write_down_to_a_read() -> None:
    reply = "CREATE (x:Ticket)\nWITH x\nMATCH (t:Ticket)\nRETURN t.key"
    assert extract(f"Cypher: {reply}") == reply


def test_extract_gives_prose_back() -> None:
    assert _code(extract("I do not know.")) == "SYNTAX"
    assert _code(extract("<think>hm")) == "EMPTY"


# -- Any text at all ----------------------------------------------------------

TEXTS = [e["cypher"] for e in ACCEPTED]
PIECES = sorted({word for text in TEXTS for word in re.findall(r"\w+|\s+|\W", text)})
PIECES += [e["cypher"][:200] for e in REFUSED]
PARAMETERS = {"tickets": [], "key": "A-1", "keys": []}


def mutate(draw: Callable[..., Any], text: str) -> str:
    """A query with a few tokens dropped, doubled, swapped or put in."""
    words = re.findall(r"\w+|\s+|\W", text) or [""]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=3))
        match draw(st.integers(0, 3)):
            case 0:
                words[at] = ""
            case 1:
                words[at:at] = [piece]
            case 2:
                words[at] = piece
            case _:
                other = draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
    return "".join(words)


@settings(max_examples=150, deadline=None)
@given(st.text() | st.text(alphabet="MATCHRETURN ()[]{}:-><|'\"\\`$.,*=1_n\u200b；", max_size=60))
def test_check_answers_or_refuses_any_text(text: str) -> None:
    _answers_or_refuses(text)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_check_answers_or_refuses_changed_queries(data: Any) -> None:
    _answers_or_refuses(mutate(data.draw, data.draw(st.sampled_from(TEXTS))))


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_extract_takes_any_text(text: str) -> None:
    assert len(extract(text)) <= len(text)


def _answers_or_refuses(text: str) -> None:
    try:
        checked = check(text, projects=["A"], parameters=PARAMETERS)
    except CypherRefused as refusal:
        code = refusal.code
    else:
        code = "" if is_covered(grammar.parse(checked.text)) else "uncovered"
        # Outside of strings the parameter stands where the gate put it and nowhere else.
        bare = re.sub(r"'(?:[^'\\]|\\.)*'", "", checked.text)
        assert bare.count("$projects") == bare.count(".project IN $projects")
    assert code in {"", *cypher.REFUSALS}
