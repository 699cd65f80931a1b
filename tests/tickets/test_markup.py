from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickets.text.markup import to_text, wiki_to_text

CODE = "  if (a && b) { *x* = [c|d] } // &lt; \\\\ h1. !i.png!\n\n\n|a| {{b}} # c"


@pytest.mark.parametrize("kind", ["code", "noformat", "code:java", "CODE:title=App.java|lang=java"])
def test_wiki_code_becomes_a_fenced_block_untouched(kind: str) -> None:
    name = "noformat" if kind == "noformat" else "code"
    language = "java" if "java" in kind else ""
    text = wiki_to_text(f"before{{{kind}}}\r\n{CODE}\r\n{{{name}}}after")
    assert text == f"before\n```{language}\n{CODE}\n```\nafter"


def test_wiki_unclosed_code_runs_to_the_end() -> None:
    assert wiki_to_text("a\n{code}\n*b*\n\nc") == "a\n```\n*b*\n\nc\n```"


def test_wiki_fence_is_longer_than_the_fences_inside() -> None:
    assert wiki_to_text("{code}\n````\nx\n````\n{code}") == "`````\n````\nx\n````\n`````"


def test_wiki_code_inside_quotation_and_list_is_untouched() -> None:
    text = wiki_to_text("{quote}\n# one\n{code}\n# two\n{code}\n# three\n{quote}\nfour")
    assert text == "> 1. one\n```\n# two\n```\n> 2. three\n\nfour"


@pytest.mark.parametrize(
    ("wiki", "expected"),
    [
        ("h1. Title", "# Title"),
        ("h3.Steps to *Reproduce*", "### Steps to Reproduce"),
        ("the h3. heading", "the h3. heading"),
        ("*Actual Result:* it burns", "**Actual Result:** it burns"),
        ("*Steps*", "**Steps**"),
        ("2*3*4 and a * b * c", "2*3*4 and a * b * c"),
        ("# one\n# two\n## deep\n# three", "1. one\n2. two\n  1. deep\n3. three"),
        ("# one\nmore of one\n# two", "1. one\nmore of one\n2. two"),
        ("# one\n\ntext\n# again", "1. one\n\ntext\n1. again"),
        ("* one\n** deep\n- dash", "- one\n  - deep\n- dash"),
        ("||A||B||\n|1|[t|http://x.y]|", "| A | B |\n| --- | --- |\n| 1 | t (http://x.y) |"),
        ("| a pipe | in a line", "| a pipe | in a line"),
        ("bq. said", "> said"),
        ("{quote}a\nb{quote}c", "> a\n> b\n\nc"),
        ("{quote}never closed", "never closed"),
        ("[~ann] and [~accountid:5b:1]", "@ann and @5b:1"),
        ("[docs|https://x.y/?a=1&amp;copy=2|smart-link]", "docs (https://x.y/?a=1&copy=2)"),
        ("[https://x.y|https://x.y] [https://x.y]", "https://x.y https://x.y"),
        ("[not a link] a[0] [ERROR]", "[not a link] a[0] [ERROR]"),
        ("!shot one.png|thumbnail! !http://x.y/z.jpg!", "[image: shot one.png] [image: z.jpg]"),
        ("Hello! This works!", "Hello! This works!"),
        ("[^log.txt]", "[attachment: log.txt]"),
        ("{color:red}red{color} {anchor:top}x", "red x"),
        ("{color:'#777', top:10}", "{color:'#777', top:10}"),
        ("{panel:title=Note|bgColor=#fff}in{panel}out", "**Note**\nin\nout"),
        ("a\n-----\nb", "a\n---\nb"),
        ("a\\\\\nb\\\\ c", "a\nb\n c"),
        ("C:\\\\Users \\\\server\\x", "C:\\\\Users \\\\server\\x"),
        ("\\{code\\} \\*a\\*", "{code} *a*"),
        ("{*}new{*} editor", "**new** editor"),
        ("{{a *b* [c|http://d.e]}}", "`a *b* [c|http://d.e]`"),
        ("&lt;b&gt; &nbsp;&#8211; &copy=1", "<b> \xa0\u2013 &copy=1"),
        ("    at App.main(App.java:3)", "at App.main(App.java:3)"),
        ("x\n    at App.main(App.java:3)", "x\n    at App.main(App.java:3)"),
        ("a\r\n\r\n\r\n\r\nb\rc", "a\n\nb\nc"),
        ("{html}<p>a &amp; <b>b</b></p>{html} *c*", "a & **b**\n **c**"),
    ],
)
def test_wiki(wiki: str, expected: str) -> None:
    assert wiki_to_text(wiki) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a\n b</p><p>c</p>", "a b\n\nc"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<h2>Steps <b>to</b> do</h2>x", "## Steps **to** do\n\nx"),
        ("<pre><code>a &lt; b\n\n\n  *c*</code></pre>", "```\na < b\n\n\n  *c*\n```"),
        ("<pre>open", "```\nopen\n```"),
        ("<ol><li>a</li><li>b<ul><li>c</li></ul></li></ol>", "1. a\n2. b\n\n  - c"),
        ("<blockquote>a<br>b</blockquote>c", "> a\n> b\n\nc"),
        (
            '<a href="http://x.y/?a&amp;b">t</a> <a href="http://x.y">http://x.y</a>',
            "t (http://x.y/?a&b) http://x.y",
        ),
        ('<a href="javascript:x">t</a>', "t"),
        ('<img alt="cat" src="a/b.png"><img src="a/b.png">', "[image: cat][image: b.png]"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "| a | b"),
        ("a<script>alert('<p>')</script><style>p</style><!-- <p>no</p> -->b", "ab"),
        ("a <!-- never closed <p>b", "a never closed\n\nb"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<code>x</code>", "`x`"),
        ("<b>open<p>b</p>", "**open**\n\nb"),
    ],
)
def test_html(html: str, expected: str) -> None:
    assert to_text(html, "html") == expected


@pytest.mark.parametrize("format_name", ["plain", "markdown"])
def test_other_formats_only_get_unix_line_ends(format_name: str) -> None:
    assert to_text("\r\n *a*\r\n{code}\r", format_name) == "*a*\n{code}"


def test_unknown_format_is_refused() -> None:
    with pytest.raises(KeyError):
        to_text("x", "adf")


HOSTILE = [
    *("{", "*", "[", "|", "!", "\\", "&", "`", "#", "-", "<", ">", "\n", " \n", "\n*", "\n|a|"),
    *("{code:", "{{", "{quote}", "{panel:", "{color:", "{code}", "{html}", "{a", "{{a", "{*}"),
    *("[a|", "[a", "!a.", "!a.png|", "*a", "*a ", "h1.", "|a", "&#", "<!--", "-->", "<a ", "</a"),
    *("<?", "<b>", "<li>", "<ul>", "<blockquote>", '<a href="', "<pre>", "<script>", "<!---->"),
]


@pytest.mark.parametrize("format_name", ["wiki", "html"])
def test_hostile_text_takes_linear_time(format_name: str) -> None:
    slow = {}
    for piece in HOSTILE:
        text = piece * (200_000 // len(piece))
        start = time.process_time()
        to_text(text, format_name)
        slow[piece] = time.process_time() - start
    # The slowest takes about 0.3 s; a quadratic one takes minutes.
    assert max(slow.values()) < 3, slow


@given(st.text(alphabet="{}[]|*#-!\\&;<>/`hcodequt1. \n:ap", max_size=60))
def test_any_text_is_converted(text: str) -> None:
    for format_name in ("wiki", "html", "plain"):
        assert "\0" not in to_text(text, format_name)
