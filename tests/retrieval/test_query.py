"""A question becomes entities and intents, by rules."""

import time

import pytest

from retrieval.query import MAX_QUESTION, analyze


@pytest.mark.parametrize(
    ("question", "intent", "topic"),
    [
        (
            "How to reproduce the login issue where a user can't log in to LinkedIn?",
            "steps",
            "login issue where a user can't log in to LinkedIn",
        ),
        ("How do I reproduce the crash on start?", "steps", "crash on start"),
        ("steps to reproduce ENT-22970", "steps", "ENT-22970"),
        ("What fixed the memory leak in table views?", "fix", "memory leak in table views"),
        ("How was the tax rate problem solved?", "fix", "tax rate problem"),
        ("What is the solution for the blank page?", "fix", "blank page"),
        ("Is there a workaround for the slow upload?", "workaround", "slow upload"),
        ("Why does the export hang?", "cause", "export hang"),
        ("What is the root cause of the timeouts?", "cause", "timeouts"),
        ("Which tickets block WEB-3?", "blocked_by", "WEB-3"),
        ("What blocks the themed menu?", "blocked_by", "themed menu"),
        ("Which tickets does WEB-4 block?", "blocks", "WEB-4"),
        ("Which tickets are blocked by WEB-4?", "blocks", "WEB-4"),
        ("What depends on WEB-4?", "blocks", "WEB-4"),
        ("What does WEB-3 depend on?", "blocked_by", "WEB-3"),
        ("What is WEB-3 blocked by?", "blocked_by", "WEB-3"),
        (
            "CLI: Duplicate option and flag abbreviations conflict",
            "solve",
            "CLI: Duplicate option and flag abbreviations conflict",
        ),
        ("Wie kann ich den Fehler beheben?", "fix", "den Fehler beheben"),
        ("Wie lässt sich der Absturz reproduzieren?", "steps", "der Absturz reproduzieren"),
        ("What is the priority of WEB-1?", "priority", "WEB-1"),
        ("status of WEB-1", "status", "WEB-1"),
        ("Is WEB-1 fixed?", "status", "WEB-1"),
        ("In which version was the menu fixed?", "fixed_in", "menu"),
        ("Duplicates of WEB-1", "duplicates", "WEB-1"),
        ("Which tickets are similar to WEB-1?", "similar", "WEB-1"),
        ("tickets like the upload failure", "similar", "upload failure"),
        ("Which tickets are related to WEB-1?", "related", "WEB-1"),
        ("What did people say about dark mode?", "discussion", "dark mode"),
        ("What is WEB-3 about?", "about", "WEB-3"),
        ("Warum hängt der Export?", "cause", "hängt der Export"),
        ("ログイン画面のエラーの再現手順は？", "steps", "ログイン画面のエラーの"),
        ("如何解决无法登录的问题？", "fix", "无法登录的问题"),
        ("the menu text is unreadable", "solve", "the menu text is unreadable"),
    ],
)
def test_intent_and_topic(question: str, intent: str, topic: str) -> None:
    found = analyze(question)
    assert [i.name for i in found.intents] == [intent]
    assert dict(found.entities)["summary"] == topic
    assert found.explicit == (intent != "solve")


def test_filed_report_has_title_and_body_and_no_intent() -> None:
    report = (
        "How do I reproduce this\nIt crashes, see WEB-1.\n{code}\nat foo(Bar.java:1)\n{code}\nBye"
    )
    found = analyze(report)
    assert [i.name for i in found.intents] == ["solve"]
    values = dict(found.entities)
    assert values["summary"] == "How do I reproduce this"
    assert "Bar.java" not in values["description"]
    assert values["description"].endswith("Bye")
    assert "Bar.java" in found.text
    assert found.keys == ()


def test_keys_and_identifiers_of_a_question() -> None:
    found = analyze("What fixed ERR-4711 and 0x80070005 in WEB-1, not version 3.1?")
    assert found.keys == ("ERR-4711", "WEB-1")
    assert found.identifiers == ("ERR-4711", "0x80070005")


@pytest.mark.parametrize("text", ["\x00", "?", "   ?  ", "{code}", "𝔄" * 50, "\ud800", "-- -- --"])
def test_odd_input_gives_a_result(text: str) -> None:
    assert analyze(text).intents


def test_hostile_question_takes_linear_time() -> None:
    started = time.process_time()
    for text in (
        "which " * 4000,
        "what is the " * 2000,
        "a-1" * 7000,
        "is " * 7000,
        "{code}" * 4000,
        "a" + " " * 19_000 + "b",
        "\u00a0" * 19_000 + "how",
    ):
        analyze(text[:MAX_QUESTION])
    assert time.process_time() - started < 5
