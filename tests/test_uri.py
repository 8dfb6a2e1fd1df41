"""URI templates: expansion as RFC 6570 says, matching as its safe inverse."""

from __future__ import annotations

import re
import string
import time

import pytest
import uritemplate
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.uri import UriTemplate

# RFC 6570 section 3.2, the variables of its examples that are strings.
VALUES = {
    "dom": "example.com",
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("X{#hello}", "X#Hello%20World!"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("{#undef}", ""),
        ("X{.var}", "X.value"),
        ("X{.x,y}", "X.1024.768"),
        ("{/var}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{/var,empty}", "/value/"),
        ("{;who}", ";who=fred"),
        ("{;empty}", ";empty"),
        ("{;v,undef,who}", ";v=6;who=fred"),
        ("{?who}", "?who=fred"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("caf\u00e9/{var}", "caf%C3%A9/value"),
    ],
)
def test_expansion_follows_the_examples_of_the_rfc(template: str, uri: str) -> None:
    """RFC 6570 section 3.2 gives these results."""
    assert uri == UriTemplate(template).expand(VALUES)


def test_triplets_in_reserved_expansion_stay() -> None:
    """RFC 6570 section 3.2.3: what is encoded already is not encoded twice."""
    values = {"a": "x%20y/%zé%2f"}

    assert UriTemplate("{+a}").expand(values) == "x%20y/%25z%C3%A9%2f"
    assert UriTemplate("{#a}").expand(values) == "#x%20y/%25z%C3%A9%2f"
    assert UriTemplate("{a}").expand(values) == "x%2520y%2F%25z%C3%A9%252f"


names = st.text(string.ascii_lowercase + "_", min_size=1, max_size=4)
operators = st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"])
literals = st.text(string.ascii_letters + string.digits + "/:-._~é", max_size=6)


@st.composite
def templates(draw: st.DrawFn) -> str:
    variables = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    text = draw(literals)
    while variables:
        count = draw(st.integers(1, len(variables)))
        text += "{" + draw(operators) + ",".join(variables[:count]) + "}" + draw(literals)
        variables = variables[count:]
    return text


@given(template=templates(), data=st.data())
def test_expansion_agrees_with_the_oracle(template: str, data: st.DataObject) -> None:
    """Any template and any values, absent ones included, give what ``uritemplate`` gives."""
    ours = UriTemplate(template)
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"), max_size=6)
    values = {name: data.draw(st.none() | text) for name in ours.names}
    expected = uritemplate.URITemplate(template.replace("é", "%C3%A9")).expand(
        {name: value for name, value in values.items() if value is not None}
    )

    assert expected == ours.expand(values)


safe_values = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0.,;&=?#"),
    min_size=1,
    max_size=8,
)


@given(values=st.fixed_dictionaries({}, optional=dict.fromkeys("abcd", safe_values)))
@pytest.mark.parametrize(
    "template",
    [
        "db://{a}/{b}-{c}{?d}",
        "file:///{+a}/x{/b}{.c}{#d}",
        "x:{a,b}{;c,d}",
        "https://h/{a}{/b}{?c}{&d}",
        "z:{+a}?v=1{&b,c}{#d}",
    ],
)
def test_match_undoes_expand(template: str, values: dict[str, str]) -> None:
    """A URI made from safe values matches its template and gives the values back."""
    compiled = UriTemplate(template)
    required = {"a": "1", "b": "2", "c": "3"} | values
    # A dash in these would stand where the template has one, and {+a} keeps triplets.
    wanted = {name: re.sub("[-%]", "_", value) for name, value in required.items()}

    assert wanted == compiled.match(compiled.expand(wanted))


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("note:{id}", "note:7", {"id": "7"}),
        ("note:{id}", "note:7/8", None),
        ("note:{id}", "note:", None),
        ("note:{id}", "other:7", None),
        ("note:{id}", "note:a%20b%C3%A9", {"id": "a bé"}),
        ("note:{id}", "note:a bé", {"id": "a bé"}),
        ("note:{id}", "note:7?x=1", None),
        ("f:/{+path}", "f:/a/b%20c/d.txt", {"path": "a/b c/d.txt"}),
        ("f:/{+path}.txt", "f:/a.txt/b.txt", {"path": "a.txt/b"}),
        ("f:/{+path}", "f:/a?b", None),
        ("f:/{+path}{?v}", "f:/a/b?v=1", {"path": "a/b", "v": "1"}),
        ("f:/{name}.{kind}", "f:/a.b.c", {"name": "a.b", "kind": "c"}),
        ("f:/n{/a,b}", "f:/n", {}),
        ("f:/n{/a,b}", "f:/n/1", {"a": "1"}),
        ("f:/n{/a,b}", "f:/n/1/2", {"a": "1", "b": "2"}),
        ("f:/n{/a,b}", "f:/n/1/2/3", None),
        ("f:/n{.a,b}", "f:/n.1.2", {"a": "1", "b": "2"}),
        ("f:/n{.a}", "f:/n.tar.gz", {"a": "tar.gz"}),
        ("f:{#a,b}", "f:#1,2", {"a": "1", "b": "2"}),
        ("f:{#a,b}", "f:,2", None),
        ("f:{#a}", "f:#x/y?z", {"a": "x/y?z"}),
        ("f:{a,b}", "f:1,2", {"a": "1", "b": "2"}),
        ("f:{a,b}", "f:1", None),
        ("f:{a,b}", "f:1%2C1,2", {"a": "1,1", "b": "2"}),
        ("f:{+a,b}", "f:1/1,2", {"a": "1/1", "b": "2"}),
        ("f:{;a,b}/x", "f:;b=2;a=1/x", {"a": "1", "b": "2"}),
        ("f:{;a}", "f:;a", {"a": ""}),
        ("q:{?a,b}", "q:?b=2&a=1", {"a": "1", "b": "2"}),
        ("q:{?a,b}", "q:?b=2", {"b": "2"}),
        ("q:{?a,b}", "q:", {}),
        ("q:{?a,b}", "q:?", None),
        ("q:{?a,b}", "q:?c=1", None),
        ("q:{?a,b}", "q:?a=1&a=2", None),
        ("q:{?a}", "q:?a=x%26y%3Dz", {"a": "x&y=z"}),
        ("q:{?a}", "q:?a=1+1", {"a": "1+1"}),
        ("q:{?a}", "q:?a=", {"a": ""}),
        ("q:{?a}", "q:?a=b%2Fc", {"a": "b/c"}),
        ("q:{?a}{&b}", "q:?b=1", {"b": "1"}),
        ("q:{?a}{#f}", "q:?a=1#x", {"a": "1", "f": "x"}),
        ("q:?v=1{&a}", "q:?v=1&a=2", {"a": "2"}),
        ("f:/{name}{.kind}", "f:/a.b.c", {"name": "a", "kind": "b.c"}),
        ("f:/{name}{.kind}", "f:/a", {"name": "a"}),
        ("f:{+a}{;b}", "f:x/y;b=1", {"a": "x/y", "b": "1"}),
        ("plain:text", "plain:text", {}),
        ("plain:text", "plain:texts", None),
        ("", "", {}),
        ("{a}{b}", "xyz", {"a": "xy", "b": "z"}),
    ],
)
def test_match_reads_what_the_template_says(
    template: str, uri: str, expected: dict[str, str] | None
) -> None:
    """Each operator matches its own form and nothing else."""
    assert expected == UriTemplate(template).match(uri)


@pytest.mark.parametrize("uri", ["caf%c3%a9:%7Ex/1", "café:~x/1", "caf%C3%A9:~x/1"])
def test_literals_are_compared_percent_normalised(uri: str) -> None:
    """RFC 3986 section 6.2.2: spellings of one URI are one URI."""
    assert UriTemplate("café:~x/{a}").match(uri) == {"a": "1"}


@pytest.mark.parametrize("template", ["f:///{+p}", "f:///{p}", "f:///a{/p}", "f:///a{?p}"])
@pytest.mark.parametrize(
    "bad",
    [
        "..",
        "../etc/passwd",
        "a/../../b",
        "%2e%2e/x",
        "%2E%2e%2fx",
        ".%2e",
        "a%2F..%2Fb",
        "a\\b",
        "..%5cwindows",
        "a%00b",
        "a\0b",
        "%ff",
        "%zz",
        "%",
        "\ud800",
    ],
)
def test_a_dangerous_value_matches_nothing(template: str, bad: str) -> None:
    """Traversal, NUL, backslash and broken encodings never reach a handler."""
    compiled = UriTemplate(template)
    places = {"f:///{+p}": "f:///", "f:///{p}": "f:///", "f:///a{/p}": "f:///a/"}

    assert compiled.match(places.get(template, "f:///a?p=") + bad) is None


def test_dots_of_neighbouring_variables_do_not_add_up() -> None:
    """``{a}{b}`` with one dot each is a parent segment all the same."""
    assert UriTemplate("f:/x/{a}{b}/y").match("f:/x/../y") is None


@pytest.mark.parametrize("slash", ["/", "%2F", "%2f"])
@pytest.mark.parametrize(
    ("template", "prefix"), [("x:{a}", "x:"), ("x:{.a}", "x:."), ("x:{;a}", "x:;a=")]
)
def test_a_simple_variable_never_holds_a_slash(template: str, prefix: str, slash: str) -> None:
    """Neither plain nor encoded."""
    assert UriTemplate(template).match(f"{prefix}b{slash}c") is None


@given(uri=st.text(st.sampled_from("a/.%25eF?#&=;,+\\\0é"), max_size=40), template=templates())
def test_no_match_ever_holds_a_climbing_path(uri: str, template: str) -> None:
    """Whatever the URI, it is matched safely or not at all."""
    compiled = UriTemplate(template)
    found = compiled.match(uri)

    for name, value in (found or {}).items():
        assert name in compiled.names
        assert ".." not in value.split("/")
        assert not {"\\", "\0"} & set(value)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{a:3}", "level 4"),
        ("{a*}", "level 4"),
        ("{?a*}", "level 4"),
        ("{/a,b:1}", "level 4"),
        ("{a", "unbalanced"),
        ("a}", "unbalanced"),
        ("{a{b}}", "unbalanced"),
        ("{}", "no expression"),
        ("{=a}", "no expression"),
        ("{|a}", "no expression"),
        ("{a,}", "no expression"),
        ("{a b}", "no expression"),
        ("{-a}", "no expression"),
        ("a b", "must not stand"),
        ("a%zz", "must not stand"),
        ("a\\b", "must not stand"),
        ("{a}{?a}", "twice"),
    ],
)
def test_a_bad_template_is_refused_when_it_is_made(template: str, reason: str) -> None:
    """The error quotes the template and says what is wrong."""
    with pytest.raises(ValueError, match=reason):
        UriTemplate(template)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{a}{b}{c}{d}{e}{f}!", "x" * 8000),
        ("{+a}x{+b}x{+c}x{+d}y", "x" * 8000),
        ("{/a,b,c,d,e,f}{.g,h,i}z", "/.." * 10 + "/." * 3900),
        ("q:{?a,b}", "q:?" + "a&" * 4000),
        ("q:{+a}", "q:" + "%2e" * 2600),
    ],
)
def test_hostile_uris_take_linear_time(template: str, uri: str) -> None:
    """No backtracking: the longest URI is judged in milliseconds."""
    compiled = UriTemplate(template)
    start = time.process_time()
    compiled.match(uri)

    assert time.process_time() - start < 0.5


def test_an_overlong_uri_matches_nothing() -> None:
    """Past 8 KiB it is no resource URI."""
    assert UriTemplate("{+a}").match("x" * 8193) is None


def test_templates_are_values() -> None:
    """Equal text, equal template; its names come in order."""
    template = UriTemplate("x:{b}{?a,c.d}")

    assert template == UriTemplate("x:{b}{?a,c.d}")
    assert template != UriTemplate("x:{b}")
    assert hash(template) == hash(UriTemplate("x:{b}{?a,c.d}"))
    assert template.names == ("b", "a", "c.d")
    assert repr(template) == "UriTemplate('x:{b}{?a,c.d}')"
