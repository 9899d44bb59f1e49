#!/usr/bin/env python3
"""Writes what Python's jinja2, set up as Hugging Face's transformers does, makes of chat templates.

usage: make_template_golden.py DATA_FOLDER OUTPUT_FOLDER

DATA_FOLDER holds <model>/tokenizer_config.json files (what QUIRE_TEST_DATA/tokenizers points to).
OUTPUT_FOLDER gets template_snippets.json (small templates with their output, or null where jinja2
refuses them), template_random.json (random ones whose literals are capital Latin letters while the
messages are Greek, so every byte of the output shows where it came from) and template_golden.json (conversations through the models' own templates: for those
the outputs only). It reads smollm2_template.jinja there, the starter model's template.
"""

import datetime
import json
import random
import sys
from pathlib import Path

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 3, 7, 14, 5, 9)  # 1741356309 seconds since 1970, UTC
NOW_S = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())


class GenerationTag(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENV = environment()


def render(source, **variables):
    """The output, or None and the reason."""
    variables.setdefault("tools", None)
    variables.setdefault("documents", None)
    try:
        return ENV.from_string(source).render(**variables), None
    except Exception as error:  # jinja2 lets Python's own errors through
        return None, str(error)


# What the snippets may use.
VARIABLES = {
    "s": "Hello, World", "pad": "  \t x y \n", "uni": "naïve Ünïcode 日本語 🙂", "empty": "",
    "n": 7, "neg": -7, "f": 2.5, "yes": True, "no": False, "nil": None,
    "xs": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"], "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": "two", "c": None, "items": 5}, "lines": "one\ntwo\n\nthree\n",
    "people": [{"name": "bob", "age": 41, "tags": ["x"]}, {"name": "Ann", "age": 29},
               {"name": "cy", "age": 41, "tags": []}],
    "schema": {"type": "object", "properties": {"q": {"type": "string", "enum": ["a", "<b>", "é\"\\\n"]},
               "k": {"type": "integer", "default": 1.0}}, "required": ["q"], "empty": {}, "none": []},
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
}

# Expressions: each is rendered inside {{ ... }}.
EXPRESSIONS = r"""
1 + 2 * 3 ** 2
7 // 2, -7 // 2, 7 // -2, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2
2 ** 10, 2 ** -1, 2 ** 3 ** 2
10 / 4, 10 / 5, 1 / 3
1e16, 1e15, 1.5e-5, 0.0001, 100.0, 1e100, 123456789.125
-n, +n, -f, - -n, not n, not not n
1_000 + 0x1f + 0b11 + 0o17
"a" "b" 'c'
"tab\tnew\\n \x41 \u00e9 \101 \q \'"
"a" ~ 1 ~ none ~ true ~ 1.0 ~ [1, "x"]
"ab" * 3, 2 * "xy", [1] * 2
[1, 2] + [3], (1,) + (2, 3)
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, "a" == 'a', true == 1, none == false
1 if yes else 2, 1 if no else 2, (1 if no), "x" if no else ("y" if no else "z")
yes and "a", no and "a", no or "b", empty or nil or 0, yes and 0 or "c"
"ell" in s, "x" not in s, 3 in xs, 9 in xs, "a" in d, "z" in d, "x" in missing
not "ell" in s
xs[0], xs[-1], xs[1:], xs[:-1], xs[::-1], xs[::2], xs[5:], xs[-100:100]
s[0], s[-1], s[1:4], s[::-1], s[7:], s[:0], uni[0:7], uni[-1], uni[::-1], s[::3]
xs[9], s[99], d["zzz"], d.zzz, nil.zzz, n.zzz
d["b"], d.a, d.get("a"), d.get("q"), d.get("q", "dflt"), d["items"]
d.keys() | list, d.values() | list, d.items() | list
d, xs, nested, (1,), (), {}, [], {"k": {"j": [none, true, 1.5, "it's", 'say "x"', "both'\""]}}
"é\n\t\x00\x7f\u200b" , ["é\n\t\x00\x7f\u200b"]
missing, [missing is defined, missing is undefined, nil is defined, nil is none, missing is none]
missing ~ "x", missing | default("d"), nil | default("d"), nil | default("d", true), empty | d("e", boolean=true)
missing | length, missing | list, missing | upper, missing | join(","), missing == missing2
n is number, f is number, s is number, yes is number, n is integer, yes is integer, f is integer, f is float, yes is boolean, n is boolean
s is string, xs is string, d is mapping, xs is mapping, s is iterable, n is iterable, xs is sequence, d is sequence, s is sequence, n is sequence
yes is true, yes is false, no is false, 1 is true, nil is true
3 is odd, 3 is even, 9 is divisibleby 3, 9 is divisibleby(4), -3 is odd
1 is eq 1, 1 is equalto(2), 1 is ne 2, 1 is lt 2, 2 is ge 2, 2 is gt(3), 3 is in xs, 3 is in([1]), 1 is sameas 1, nil is sameas none
"abc" is lower, "ABC" is upper, "aBc" is upper, "1" is lower
xs is not string, nil is not none, s is not defined
"upper" is filter, "nope" is filter, "odd" is test
s | upper, s | lower, "hello wORLD-foo (bar)" | title, "hELLO" | capitalize, uni | upper
pad | trim, "xxaxx" | trim("x"), pad.strip(), pad.lstrip(), pad.rstrip(), "xyax".strip("xy"), "\u3000a\u00a0".strip()
"a,b,,c".split(","), "a,b,c".split(",", 1), " a  b ".split(), " a  b c ".split(None, 1), "abc".split("b")[-1], "".split(), "".split(",")
"a,b,c".rsplit(",", 1), " a b  c ".rsplit(none, 1), " a b ".rsplit(), "a--b--c".rsplit("--"), " a ".rsplit(none, 0)
lines.splitlines(), lines.splitlines(true), "a\r\nb\rc".splitlines()
s.startswith("Hel"), s.startswith(("x", "He")), s.endswith("ld"), s.startswith("ell", 1), s.endswith("o", 0, 5), s.startswith(("a",))
s.find("o"), s.rfind("o"), s.find("zz"), s.index("W"), s.count("l"), uni.find("日"), s.find("o", 5), "aaa".count("aa"), "abc".count("")
s.replace("l", "L"), s.replace("l", "L", 1), "abc".replace("", "-"), s | replace("o", "0"), s | replace("l", "", 2)
"one two".title(), "they're bill's".title(), "HELLO".capitalize(), "x".upper(), "ÀB".lower()
"-".join(["a", "b"]), ", ".join("abc"), "abc".partition("b"), "abc".rpartition("z"), "abcb".rpartition("b")
"abc".removeprefix("a"), "abc".removesuffix("bc"), "abc".removeprefix("z")
"7".zfill(3), "-7".zfill(4), "x".ljust(3, "."), "x".rjust(3), "x".center(4, "*"), "ab".center(5)
"12".isdigit(), "1a".isdigit(), "ab".isalpha(), "a1".isalnum(), " \t".isspace(), "".isspace(), "AB".isupper(), "ab".islower()
xs | length, s | length, uni | length, d | length, d | count
xs | first, xs | last, s | first, s | last, [] | first, d | first
xs | join, xs | join(", "), people | join("-", attribute="name"), names | join(d=", ")
xs | sort, xs | sort(reverse=true), names | sort, names | sort(case_sensitive=true), people | sort(attribute="age") | map(attribute="name") | list
xs | reverse | list, s | reverse, xs | list, s | list, d | list
xs | min, xs | max, names | min, people | max(attribute="age"), [] | max
xs | sum, people | sum(attribute="age"), [1.5, 2] | sum, [] | sum(start=3)
names | unique | list, [1, 1.0, 2, 1] | unique | list, names | unique(case_sensitive=true) | list
names | map("upper") | list, people | map(attribute="name") | join(","), people | map(attribute="zip", default="?") | list, xs | map("string") | list, [" a ", "b "] | map("trim") | list, people | selectattr("tags") | map(attribute="tags.0") | list
xs | select("odd") | list, xs | reject("odd") | list, [0, 1, "", "a"] | select | list, xs | select("gt", 1) | list, xs | reject("equalto", 3) | list, xs | select(">", 2) | list
people | selectattr("tags") | map(attribute="name") | list, people | selectattr("age", "equalto", 41) | list | length, people | rejectattr("tags") | list | length, people | selectattr("tags", "defined") | list | length, people | rejectattr("name", "in", ["bob"]) | map(attribute="name") | list
d | dictsort, d | items | list, {"B": 2, "a": 1} | dictsort, {"B": 2, "a": 1} | dictsort(true), {"x": 2, "y": 1} | dictsort(by="value"), {"x": 1, "y": 2} | dictsort(reverse=true)
[1, 2, 3, 4, 5] | batch(2) | list, [1, 2, 3] | batch(2, 0) | list
"3" | int, "3.9" | int, "x" | int, "x" | int(7), " 42 " | int, "ff" | int(base=16), 3.99 | int, -3.99 | int, none | int, true | int, "1_000" | int, [1] | int
"3" | float, "x" | float, "1e3" | float(2.0), n | float
-3 | abs, neg | abs, -2.5 | abs, 2.5 | round, 3.5 | round, 2.675 | round(2), 7 | round, 2.51 | round(1, "floor"), 2.41 | round(1, "ceil"), 1234.5 | round(-2)
lines | indent, lines | indent(2, true), lines | indent("> "), lines | indent(2, first=true, blank=true), "a" | indent
"x" | string, 1 | string, "a b-c d_e" | wordcount, "x" | center(5)
schema | tojson, schema | tojson(indent=2), d | tojson(sort_keys=true), xs | tojson(separators=(",", ":")), xs | tojson(indent=4), "é\u2028</script>" | tojson, "é🙂" | tojson(ensure_ascii=true), 1.0 | tojson, none | tojson, true | tojson, (1, 2) | tojson, {1: 2, none: 3, true: 4, 1.5: 5} | tojson, "\x7f\x01" | tojson, {} | tojson(indent=2), [[]] | tojson(indent=1), xs | tojson(indent="--"), xs | tojson(indent=0)
'{"a": [1, 2.5, null, true], "b": {"c": "x"}, "a2": -0.0}' | from_json, ('[1]' | from_json)[0] + 1
"%s is %d" % ("x", 3), "%5.2f|%-5s|%05d|%x|%%|%+d" % (1.5, "ab", 42, 255, 3), "%s" % "one", "%(a)s-%(b)02d" % {"a": "A", "b": 5}, "%r" % "x", "%.2s" % "abcdef", "%s" % (xs,), "%e %g %g" % (12345.678, 0.00001, 1e20), "%i" % 3.9, "%-6d|%6.1f|% d" % (3, 2.25, 4), "%#x" % 255, "%c" | length
"%s-%s" | format("a", 2), "%(x)s" | format(x=1)
"{} {}".format("a", 1), "{1} {0}".format("a", "b"), "{x}-{x}".format(x=3), "{{}}".format(), "{:>5}|{:<5}|{:^5}|{:*^7}".format("a", "b", "c", "d"), "{:05d} {:.2f} {:,} {:x} {:+d} {:%}".format(42, 3.14159, 1234567, 255, 5, 0.25), "{!r}".format("q"), "{:8.3f}|{:.3}".format(2.5, "abcdef"), "{:5}|{:5}".format(1, "a"), "{:b}".format(5)
range(5) | list, range(2, 8, 3) | list, range(5, 0, -2) | list, range(0) | list
dict(a=1, b=2), dict({"x": 1}, y=2), dict([("k", "v")])
namespace(a=1).a, namespace({"z": 3}).z, namespace().q
strftime_now("%d %b %Y"), strftime_now("%Y-%m-%d %H:%M:%S %A %B %a %p %I %j %y %-d %e %% %w"), strftime_now("%D %F %T %R")
xs.index(2), xs.count(3), (1, 2).index(2), xs.copy()
people[0].name, people[0]["name"], people[-1].tags, people[0].tags[0], people.0.name, d.items is callable
"a" < "b", [1, 2] < [1, 3], (1, "a") < (1, "b"), "Z" < "a", "é" > "z"
{"a": 1, "a": 2, "b": 3}, {1: "x", 1.0: "y", true: "z"}, {(1, 2): "t"}[(1, 2)]
1 in [true], "1" in [1], [1] in [[1]], none in [none], 1 in (1, 2)
(xs | length - 1), (xs|length) - 1, -xs[0] | abs, "x" ~ xs | length, not xs | length == 3
1.0 * 3, 3 - 0.5, 2 * 1.5, 0.1 + 0.2, 5 // 2.0, 1e300 * 1e10, true + true
d | attr("keys") is defined, d.keys is defined, s.upper is callable, s.nope is defined
loop is defined, loop
"a\
b"
xs if xs is defined and xs is not none else []
tools is none, tools is defined, documents is none
[1, 2, 3,], (1, 2,), {"a": 1,}
s | replace("o", "0") | upper | trim("H"), (s ~ "!") | lower | length
"".join([]), "" | first, "" | trim, "" * 5, "abc" * -1, [] * 3
xs | map("abs") | sum, people | map(attribute="age") | unique | list, names | map("replace", "a", "4") | list, xs | map("default", 5) | list
""".strip("\n")

TEMPLATES = [
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "  {{ 1 }}  \n {# c #} \nx", "x\n\n", "x\n", "\n", "", "\r\na\r\nb\r",
    "a {%- if yes -%} b {%- endif -%} c", "a {%+ if yes %}\nb{% endif +%}\nc", "  {%+ if yes +%}\n z {%- endif %}\n\n",
    "{{- 1 -}}  2", "a  {{- 1 }}  b {{ 2 -}}  c", "{#- x -#}  y", "a\n   {#- x #}\nb", "a {# x -#}\n b", "{# a\nb #}\n\nc", "{# {{ x }} {% if %} #}d",
    "{% raw %}{{ x }}{% if %}{% endraw %}", "a {%- raw -%}  {{ b }}  {%- endraw -%} c", "{% raw %}\n x\n{% endraw %}\ny",
    "{% for x in xs %}{{ loop.index }},{{ loop.index0 }},{{ loop.revindex }},{{ loop.revindex0 }},{{ loop.first }},{{ loop.last }},{{ loop.length }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.depth }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}",
    "{% for x in xs if x > 9 %}a{% else %}none{% endfor %}", "{% for x in xs[::-1] %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | dictsort %}{{ k }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in uni %}[{{ c }}]{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for x in missing %}x{% else %}e{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}({{ loop(n.c) }}){{ loop.depth0 }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in xs %}{{ x }}{% endfor %}{{ x }}", "{% for x in range(3) %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in xs %}{{ x }}{% set x = i + 10 %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(c=0) %}{% for i in xs %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}",
    "{% set ns = namespace() %}{% set ns.new = 'v' %}{{ ns.new }}{{ ns.old }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}\n  body {{ n }}\n{% endset %}[{{ x }}]", "{% set x | upper | trim %} abc {% endset %}[{{ x }}]", "{% if yes %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}",
    "{% if no %}a{% elif nil %}b{% elif n %}c{% else %}d{% endif %}", "{% if no %}a{% elif nil %}b{% else %}d{% endif %}", "{% if xs and not empty %}t{% endif %}",
    "{% macro m(a, b='B', c=a) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }} {{ m(b=4, a=5) }} {{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}", "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in {{ n }}{% endcall %}",
    "{% macro m(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(a, i) m([4, 5]) %}<{{ a }}{{ i }}>{% endcall %}",
    "{% macro m(a) %}\n  x{{ a }}\n{% endmacro %}\n{{ m(1) }}{{ m(2) | trim }}", "{% for x in xs %}{% macro g() %}{{ x }}{% endmacro %}{{ g() }}{% endfor %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% set f = 'x' %}{% macro m(f) %}{{ f }}{% endmacro %}{{ m('y') }}{{ f }}{{ m(*['z']) }}{{ m(**{'f': 'w'}) }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aca{% endfilter %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}text {{ n }}{% endgeneration %}|", "{% print 1, 2 %}", "{{ 1 }}{{ 'a{{b}}' }}{{ '%}' }}", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a':{'b':1}}}}",
    "{% for m in people %}{{ '<' + m.name + '>' }}{{ m['age'] }}{% if not loop.last %}\n{% endif %}{% endfor %}", "{{ '\n' }}x{{ \"\\n\" }}y", "{{ s\n| upper\n}}",
    "{%if yes%}a{%endif%}{%-if yes-%} b {%-endif-%} c", "{{ xs | join(',') | upper ~ 'x' }}", "{% if 'a' in d and d.a is string %}S{% endif %}",
    "{% for x in xs %}\n{{ x }}\n{% endfor %}\n", "  {% for x in xs %}\n    {{- x }}\n  {%- endfor %}\nend", "{% if yes: %}colon{% endif %}", "{{ s.split(', ')[1].lower()[:3] }}",
    "{{ loop }}{% for x in xs %}{{ loop.index }}{% endfor %}{{ loop }}", "{% set loop = 3 %}{{ loop }}", "{{ d['items'] }}",
    "{% for x in xs %}{% set y = x %}{% endfor %}{{ y is defined }}", "{{ (1, 2)[0] }}{{ [1, 2][1] }}{{ 'abc'[1] }}{{ {'a': 1}['a'] }}", "{{ 'a' if yes }}{{ 'b' if no }}",
    "{% for i in range(3) %}{% if loop.first %}F{% elif loop.last %}L{% else %}M{% endif %}{% endfor %}", "{% set x = namespace(y=[1]) %}{% set x.y = x.y + [2] %}{{ x.y }}",
    "{{ '<b>' | safe }}{{ '<b>&\\'' | escape }}", "{{ people | map(attribute='name') | map('upper') | join(' ') }}", "{{ \"it's\" }}{{ 'q\"q' }}", "{{ 'a' 'b' ~ 'c' }}", "{#a#}{#b#}\n\nc{#d#}\n", "a{% if yes %}\n\nb{% endif %}\n",
]

# All of these must be refused, by jinja2 and by us, as they are compiled or as they run.
FAILING = [
    "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ missing.attr }}", "{{ missing[0] }}", "{{ missing + 1 }}", "{{ missing() }}", "{{ s.nope() }}",
    "{{ nil + 1 }}", "{{ nil() }}", "{{ n() }}", "{{ [1] < 2 }}", "{{ 'a' < 1 }}", "{{ 3 in 5 }}", "{{ 1 in 'a' }}", "{% for x in 5 %}{% endfor %}", "{% for x in nil %}{% endfor %}",
    "{{ raise_exception('stop here') }}", "{{ xs | nofilter }}", "{{ xs is notest }}", "{{ xs | length(1) }}", "{{ 'a' | replace }}", "{{ n | length }}", "{{ nil | tojson(nope=1) }}",
    "{{ missing | tojson }}", "{{ xs.append(4) }}", "{{ d.update({}) }}", "{{ d.pop('a') }}", "{{ range(10000000) }}", "{% set n.x = 1 %}", "{% set d.x = 1 %}", "{% set a, b = [1] %}{{ a }}", "{% for a, b in [[1]] %}{% endfor %}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a) %}{% endmacro %}{% call m(1) %}x{% endcall %}",
    "{{", "{{ 1", "{% if %}", "{% if yes %}", "{% endif %}", "{% for %}{% endfor %}", "{% for x xs %}{% endfor %}", "{% unknown %}", "{% else %}", "{{ }}", "{{ 1 2 }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ 'abc }}",
    "{{ a. }}", "{{ a | }}", "{{ a is }}", "{# open", "{% raw %}x", "{{ 1 ! 2 }}", "{{ a = 1 }}", "{% set %}", "{% set 1 = 2 %}", "{% set x %}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}",
    "{% break %}", "{% continue %}", "{% for x in xs %}{% endif %}{% endfor %}", "{{ xs[1:2:0] }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ '%s' % (1, 2) }}", "{{ '{} {}'.format(1) }}", "{{ 'abc'.index('z') }}", "{{ xs.index(99) }}",
    "{{ 'a'.split('') }}", "{{ ','.join([1]) }}", "{{ {[1]: 2} }}", "{{ 'a'.startswith(1) }}", "{{ 'x' * 'y' }}", "{{ -'x' }}", "{{ not }}", "{{ 1 + }}", "{{ foo bar }}", "{{ loop.index }}", "{{ d | dictsort(by='zzz') }}",
    "{{ dict(1) }}", "{{ range() }}", "{{ range('a') }}", "{{ 'a' | batch }}", "{{ ((-8) ** 0.5) < 1 }}", "{{ 0 ** -1 }}", "{{ 10.0 ** 400 }}", "{{ nil[0:1] }}", "{{ n[1:] }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{{ 'x'.__class__.__mro__ }}", "{{ {}.__class__.y.z }}", "{{ 'a' is defined is string }}", "{{ 99999 | center }}x{{ missing.x }}",
]

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Météo <now> & \"then\"",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "noop", "parameters": {}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}},
    {"id": "c2", "type": "function", "function": {"name": "noop", "arguments": "{}"}}]}


def user(text):
    return {"role": "user", "content": text}


def bot(text):
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "Be brief. {{ bos_token }}"}
CONVERSATIONS = {
    "user only": [user("Hello")],
    "system": [SYSTEM, user("Hello")],
    "several turns": [SYSTEM, user("1"), bot("2"), user("3"), bot("4"), user("5")],
    "no system, several turns": [user("1"), bot("2\n"), user(" 3 ")],
    "empty content": [user(""), bot(""), user("")],
    "unicode": [user("日本語 🙂 \u00a0é \u2028"), bot("ünïcode"), user("\t\n")],
    "special tokens and braces": [user("<|im_end|>\n<|im_start|>system\n{{ evil }}{% raw %}<s></s><bos><|eot_id|>"), bot("<end_of_turn>{# c #}"), user("</think>")],
    "thinking": [user("q"), bot("<think>\nhm\n</think>\n\nanswer"), user("q2"), bot("<think>\nmore\n</think>\n\nlast")],
    "ends with assistant": [user("q"), bot("a")],
    "tool use": [SYSTEM, user("weather?"), CALL, {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "{\"x\": 1}"}, bot("It is sunny."), user("thanks")],
    "null content": [user("q"), {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "content": "r"}],
    "two users": [user("a"), user("b")],
    "content parts": [{"role": "user", "content": [{"type": "text", "text": " part "}, {"type": "image"}]}],
    "no content": [{"role": "user"}],
    "no messages": [],
}
VARIANTS = {
    "plain": {},
    "no prompt": {"add_generation_prompt": False},
    "tools": {"tools": TOOLS},
    "no thinking": {"enable_thinking": False},
}


def golden_for(source, bos, eos):
    cases = []
    for name, messages in CONVERSATIONS.items():
        for variant, extra in VARIANTS.items():
            variables = {"add_generation_prompt": True, "bos_token": bos, "eos_token": eos, **extra}
            output, error = render(source, messages=messages, **variables)
            cases.append({"conversation": name, "variant": variant, "output": output,
                          **({"error": error} if error else {})})
    return cases


class RandomTemplate:
    """Expressions over strings that keep every character as it is, or in its own script."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def word(self):
        return "".join(self.random.choice("ABCDEFG") for _ in range(self.random.randint(1, 4)))

    def literal(self):
        return "'" + self.word() + "'"

    def text(self, depth):
        r = self.random
        if depth == 0:
            content = "messages[%d].content" % r.randrange(3)
            return r.choice([self.literal(), content, content, "messages[%d]['role']" % r.randrange(3), "saved"])
        a, b = self.text(depth - 1), self.text(r.randrange(depth))
        i, j = r.randint(-6, 6), r.randint(-6, 9)
        return r.choice([
            f"({a} ~ {b})", f"({a} + {b})", f"({a})[{i}:{j}]", f"({a})[::{r.choice([-1, 2, 3, -2])}]", f"({a} | trim)",
            f"({a}).strip('AαB ')", f"({a}).split('A') | join({b})", f"(({a}).split()[0] if ({a}).split() else {b})", f"({a}).replace('B', {b})",
            f"({a} | replace({b}, 'C', 1))", f"({a} | reverse)", f"[{a}, {b}] | join('E')", f"({a} if {b} else 'F')", f"({b} or {a})", f"({a}) * {r.randint(0, 3)}",
            f"'%s=%s' % ({a}, {b})", f"'D{{}}{{}}'.format({a}, {b})", f"({a} | upper)", f"({a} | default('G'))", f"shout({a}, {b})", f"({a} | list | join)", f"({a}).partition('C')[{r.randrange(3)}]",
            f"({a} | first | default({b}))", f"([{a}, {b}] | sort | last)", f"([{a}, {b}] | map('trim') | select | join)", f"messages | map(attribute='content') | join({b})", f"({{'k': {a}}}.k ~ {b})",
            f"({a}).rsplit('B', 1)[0]", f"({a}).upper()", f"('%-4s' | format({a})).rstrip()", f"({a} | indent(0))",
        ])

    def statement(self, depth):
        r = self.random
        text = self.text(r.randint(0, 3))
        if depth == 0:
            return r.choice([self.word(), "{{ %s }}" % text])
        inner = self.statement(depth - 1) + self.statement(r.randrange(depth))
        return r.choice([
            "{%% if %s %%}%s{%% else %%}%s{%% endif %%}" % (text, inner, self.word()),
            "{%% for message in messages %%}%s{{ message.content }}{%% endfor %%}" % inner,
            "{%% for c in %s %%}{{ c ~ loop.cycle('A', 'B') }}{%% endfor %%}" % text,
            "{%% set saved = %s %%}%s" % (text, inner), "{%% set saved %%}%s{%% endset %%}{{ saved }}" % inner,
            "{%% set ns = namespace(t=%s) %%}{%% for i in [1, 2] %%}{%% set ns.t = ns.t ~ %s %%}{%% endfor %%}{{ ns.t }}" % (text, self.text(1)),
            "{%% filter upper %%}%s{%% endfilter %%}" % inner, "{%% call wrap() %%}%s{%% endcall %%}" % inner, inner,
        ])

    def source(self):
        head = ("{%- macro shout(a, b='DD') %}<{{ a | upper }}{{ b }}>{% endmacro %}"
                "{%- macro wrap() %}[{{ caller() }}]{% endmacro %}{% set saved = 'EE' %}")
        return head + "".join(self.statement(2) for _ in range(2))


RANDOM_MESSAGES = [{"role": "χρήστης", "content": "αβγ δε"}, {"role": "ρ", "content": "  λόγος\n"}, {"role": "ρ", "content": "ω"}]


def random_templates(count):
    cases = []
    for seed in range(count):
        source = RandomTemplate(seed).source()
        output, _ = render(source, messages=RANDOM_MESSAGES)
        if output is None or len(output) < 2000:
            cases.append({"template": source, "output": output})
    return cases


def token_text(value):
    return value["content"] if isinstance(value, dict) else value or ""


def write(path, data):
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main(data_folder, output_folder):
    snippets = []
    for line in EXPRESSIONS.replace("\\\n", "\\\x00").split("\n"):
        source = "{{ " + line.replace("\x00", "\n") + " }}"
        output, _ = render(source, **VARIABLES)
        snippets.append({"template": source, "output": output})
    for source in TEMPLATES:
        output, error = render(source, **VARIABLES)
        assert output is not None, (source, error)
        snippets.append({"template": source, "output": output})
    for source in FAILING:
        output, _ = render(source, **VARIABLES)
        assert output is None, (source, output)
        snippets.append({"template": source, "output": None})
    write(output_folder / "template_snippets.json", {"now_s": NOW_S, "variables": VARIABLES, "snippets": snippets})

    write(output_folder / "template_random.json",
          {"messages": RANDOM_MESSAGES, "cases": random_templates(160)})

    starter = (output_folder / "smollm2_template.jinja").read_text(encoding="utf-8")
    models = [{"name": "smollm2", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
               "cases": golden_for(starter, "<|im_start|>", "<|im_end|>")}]
    for config in sorted(data_folder.glob("*/tokenizer_config.json")):
        settings = json.loads(config.read_text(encoding="utf-8"))
        if "chat_template" not in settings:
            continue
        bos, eos = token_text(settings.get("bos_token")), token_text(settings.get("eos_token"))
        models.append({"name": config.parent.name, "bos_token": bos, "eos_token": eos,
                       "cases": golden_for(settings["chat_template"], bos, eos)})
    write(output_folder / "template_golden.json",
          {"conversations": CONVERSATIONS, "variants": VARIANTS, "models": models})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
