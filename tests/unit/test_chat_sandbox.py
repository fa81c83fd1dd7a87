"""Templates come from files on the internet: they may be broken, and they may mean harm."""

from __future__ import annotations

import pytest

from edgespec import sandbox
from edgespec.errors import TemplateError
from edgespec.sandbox import Refused, Template

RUNAWAYS = {
    "a huge range": "{% for i in range(10**9) %}{% endfor %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "recursion that doubles": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "endless recursion": "{% macro f(n) %}{{ f(n+1) }}{% endmacro %}{{ f(0) }}",
    "a text times a number": "{{ 'x' * 10**9 }}",
    "a list times a number": "{{ ([1] * 10**9) | length }}",
    "doubling by ~": "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubling by +": "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "doubling a list": "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "many large texts": "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = n.x + ['x' * 1000000] %}"
    "{% endfor %}",
    "much output": "{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}",
    "padding by a method": "{{ 'x'.center(10**9) }}",
    "padding by %": "{{ '%1000000000d' % 1 }}",
    "padding by % and a star": "{{ '%*d' % (10**9, 1) }}",
    "padding by format": "{{ '{:1000000000}'.format(1) }}",
    "many fields": "{{ ('%(a)s' * 100000) % {'a': 'x' * 1000000} }}",
    "replace by a method": "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
    "replace by a filter": "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
    "join": "{{ (['x' * 1000000] * 1000) | join('') }}",
    "join with a long separator": "{{ range(9999) | map('string') | join('z' * 100000) }}",
    "a power of powers": "{{ 10**10**10 }}",
    "one text many times in a list": "{{ ['x' * 1000000] * 1000 }}",
    "one text many times in a list, as text": "{% set x = ['x' * 1000000] * 1000 %}{{ ('' ~ x) | length }}",
    "one text many times in a list, as JSON": "{{ (['x' * 1000000] * 1000) | tojson | length }}",
    "one text many times in a list, in a field": "{{ ('%s' % (['x' * 1000000] * 1000)) | length }}",
    "one text many times in a list, joined": "{{ ''.join(['x' * 1000000] * 1000) | length }}",
    "lists in lists": "{{ ([[[[[1] * 999] * 999] * 999] * 999] * 999) | string | length }}",
    "indented JSON": "{{ {'a': 1} | tojson(indent=10**9) }}",
}


@pytest.mark.parametrize("source", RUNAWAYS.values(), ids=RUNAWAYS.keys())
def test_a_template_that_runs_away_is_stopped(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(source).render({})
    assert "\n" not in caught.value.message


def test_a_template_that_takes_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(sandbox, "monotonic", lambda: next(clock))
    with pytest.raises(TemplateError, match="seconds"):
        Template("{% for i in range(9) %}{{ i }}{% endfor %}").render({})


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append('x') }}",
        "{{ messages.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ '{0.__class__}'.format('x') }}",
        "{{ lipsum.__globals__ }}",
        "{{ ('x',) | map(attribute='__class__') | list }}",
    ],
)
def test_the_sandbox_keeps_templates_inside(source: str) -> None:
    try:
        text = Template(source).render({"messages": []})
    except TemplateError:
        return
    assert "class" not in text


@pytest.mark.parametrize(
    "source",
    ["{% if %}", "{{ x", "{% for %}", "{{ 'a' | nosuchfilter }}", "{{" + "(" * 5000 + "}}", "{% nosuchtag %}"],
)
def test_a_broken_template_is_a_sentence(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(source)
    assert caught.value.hint


@pytest.mark.parametrize("source", ["{{ none.x() }}", "{{ 1 / 0 }}", "{{ x.y.z }}", "{{ 'a' + 1 }}"])
def test_a_template_that_fails_is_a_sentence(source: str) -> None:
    with pytest.raises(TemplateError, match="fails"):
        Template(source).render({})


def test_an_oversized_template_is_not_compiled() -> None:
    with pytest.raises(TemplateError, match="characters long"):
        Template("x" * 300_000)


def test_a_refusal_is_told_from_a_failure_and_its_words_fit_one_line() -> None:
    with pytest.raises(Refused) as caught:
        Template("{{ raise_exception('no\n\x1b[31m system.') }}").render({})
    assert caught.value.message == "The chat template refuses this conversation: no [31m system."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for c in 'abc' %}{% if c == 'b' %}{% continue %}{% endif %}{{ c }}{% endfor %}", "ac"),
        ("{% for c in 'abc' %}{% if c == 'b' %}{% break %}{% endif %}{{ c }}{% endfor %}", "a"),
        ("{% generation %}a{% endgeneration %}", "a"),
        ("{{ {'a': 'é<'} | tojson }}", '{"a": "é<"}'),
        ("{{ {'a': 'é'} | tojson(ensure_ascii=True) }}", '{"a": "\\u00e9"}'),
        ("{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ ['a', 'b'] | join(', ') }}{{ '%s-%d' % ('x', 3) }}{{ '{}'.format(2) }}", "a, bx-32"),
        ("{{ 'a-b'.replace('-', '+') | upper }}", "A+B"),
        ("{% if true %}\n  a\n{% endif %}\nb", "  a\nb"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ missing }}", ""),
    ],
)
def test_what_real_templates_use_works(source: str, text: str) -> None:
    assert Template(source).render({}) == text


def test_the_trace_hook_of_a_debugger_is_put_back() -> None:
    import sys

    def hook(frame: object, event: str, argument: object) -> None: ...

    before = sys.gettrace()
    sys.settrace(hook)
    try:
        Template("x").render({})
        assert sys.gettrace() is hook
    finally:
        sys.settrace(before)
