from __future__ import annotations

import pytest

from tickets.importers.states import resolution_category, status_category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("", ""),
        ("Unresolved", ""),
        ("Fixed", "fixed"),
        ("Done", "fixed"),
        ("Duplicate", "duplicate"),
        ("Won\u2019t Do", "wontfix"),
        ("Cannot Reproduce", "cannot_reproduce"),
        ("Works for Me", "cannot_reproduce"),
        ("Needs more info", "other"),
        ("galaxy", "other"),
    ],
)
def test_resolution_category(name: str, category: str) -> None:
    assert resolution_category(name) == category


@pytest.mark.parametrize(
    ("status", "resolution", "done", "category"),
    [
        ("Open", "", None, "open"),
        ("Reopened", "", None, "open"),
        ("Waiting for customer", "", False, "pending"),
        ("On Hold", "", None, "pending"),
        ("galaxy", "", None, "open"),
        ("Closed", "Fixed", None, "solved"),
        ("Resolved", "", None, "solved"),
        ("Closed", "", None, "closed"),
        ("Closed", "Duplicate", True, "closed"),
        ("Closed", "Cannot Reproduce", True, "closed"),
        ("Closed", "Incomplete", True, "closed"),
        ("Closed", "Information Provided", True, "solved"),
        ("Verified", "Fixed", True, "solved"),
        # The tracker itself knows best whether a word means that the work is over.
        ("Done", "", False, "open"),
        ("Rejected", "", None, "closed"),
    ],
)
def test_status_category(status: str, resolution: str, done: bool | None, category: str) -> None:
    assert status_category(status, resolution, done) == category
