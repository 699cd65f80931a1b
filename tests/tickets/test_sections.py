"""The template: one declaration that everything else is derived from."""

import pytest

from tickets.sections import TemplateError, load, template

KIND = """
kinds:
  summary: {label: Summary, relationship: HAS_SUMMARY, parent: ticket, description: A line.}
  %s
links: {}
"""


def test_path_of_a_nested_kind() -> None:
    path = [step.relationship for step in template().path("steps_to_reproduce")]
    assert path == ["HAS_DESCRIPTION", "HAS_STEPS_TO_REPRODUCE"]


def test_relationships_name_the_labels_at_both_ends() -> None:
    relationships = template().relationships
    assert relationships["HAS_PRIORITY"] == ("Fields", "Priority")
    assert relationships["HAS_SUMMARY"] == ("Ticket", "Summary")
    assert relationships["BLOCKS"] == ("Ticket", "Ticket")


@pytest.mark.parametrize(
    ("wording", "meaning"),
    [
        ("blocks", ("BLOCKS", True)),
        ("is blocked by", ("BLOCKS", False)),
        ("is dependent of", ("BLOCKS", True)),
        ("depends on", ("BLOCKS", False)),
        ("is duplicated  By", ("DUPLICATE_OF", False)),
        ("is cloned into", ("CLONE_OF", False)),
        ("is triggering", ("RELATES_TO", True)),
        ("has nothing to", None),
    ],
)
def test_link_wordings(wording: str, meaning: tuple[str, bool] | None) -> None:
    assert template().link(wording) == meaning


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x: {label: X, relationship: HAS_X, parent: y, description: D}", "kinds.x.parent"),
        ("x: {label: X, relationship: HAS_X, parent: ticket}", "kinds.x: 'description'"),
        ("x: {label: 'X Y', relationship: HAS_X, parent: ticket, description: D}", "x.label"),
        ('x: {label: "X\\n", relationship: HAS_X, parent: ticket, description: D}', "x.label"),
        ("x: {label: X, relationship: HAS_SUMMARY, parent: ticket, description: D}", "twice"),
        ("x: {label: X, relationship: H, parent: ticket, description: D, colour: 1}", "colour"),
    ],
)
def test_faulty_template_is_refused_by_name(entry: str, message: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "template.yaml"
    path.write_text(KIND % entry)
    with pytest.raises(TemplateError, match=message):
        load(path)
