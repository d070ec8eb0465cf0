//! Templates that would exhaust memory, stack or time return errors.

use std::thread;

use serde_json::{Map, Value, json};
use spag_chat::jinja::{Dialect, Template};

use crate::HELD;

/// Maximum bytes that a template may hold.
const MEMORY: usize = 256 << 20;
/// The stack size of a tokio or rayon worker.
const STACK: usize = 2 << 20;

/// Renders a template on the stack of a worker.
fn render(template: &str) -> Result<String, String> {
    let variables: Map<String, Value> = json!({"x": "abc", "n": 12345}).as_object().unwrap().clone();
    let before = HELD.allocated();
    let rendered = thread::scope(|scope| {
        let run = || Template::new(template, Dialect::Transformers)?.render(&variables).map_err(|error| error.clone());
        let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap();
        worker.join().unwrap()
    });
    let start: String = template.chars().take(200).collect();
    let held = HELD.max_allocated().saturating_sub(before);
    assert!(held < MEMORY, "{start}: {held} bytes");
    rendered.map_err(|error| error.to_string())
}

/// Uses of a value.
const USES: [&str; 22] = [
    "{{ v }}",
    "{{ v|tojson }}",
    "{{ v|tojson(indent=8) }}",
    "{{ v|string|length }}",
    "{{ v == w }}",
    "{{ v < w }}",
    "{{ [v] == [w] }}",
    "{{ v in [w] }}",
    "{{ {v: 1} }}",
    "{{ [v, w]|unique|list|length }}",
    "{{ [v, w]|sort|length }}",
    "{{ [v, w]|max }}",
    "{{ [[v], [w]]|groupby(0)|length }}",
    "{{ '%s' % [v] }}",
    "{{ '%r' % [v] }}",
    "{{ '{}'.format(v) }}",
    "{{ v ~ w }}",
    "{{ v|join }}",
    "{{ v|escape }}",
    "{{ v|urlencode }}",
    "{{ [v]|map('string')|list|length }}",
    "{{ [v, w]|sum(start=[]) }}",
];

/// Values that are larger or deeper than they look.
const MADE: [&str; 9] = [
    // Deep.
    "{% set ns = namespace(v=[], w=[]) %}{% for i in range(20000) %}{% set ns.v = [ns.v] %}{% set ns.w = [ns.w] %}{% endfor %}",
    "{% set ns = namespace(v=(), w=()) %}{% for i in range(20000) %}{% set ns.v = {1: ns.v} %}{% set ns.w = (ns.w,) %}{% endfor %}",
    "{% set ns = namespace(v=[], w=[]) %}{% for i in range(190) %}{% set ns.v = [ns.v] %}{% set ns.w = [ns.w] %}{% endfor %}",
    // Shared, so it is small until it is traversed.
    "{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(60) %}{% set ns.v = [ns.v, ns.v] %}{% set ns.w = [ns.w, ns.w] %}{% endfor %}",
    "{% set ns = namespace(v=(1,), w=(1,)) %}{% for i in range(60) %}{% set ns.v = (ns.v, ns.v) %}{% set ns.w = (ns.w, ns.w) %}{% endfor %}",
    "{% set ns = namespace(v={}, w={}) %}{% for i in range(60) %}{% set ns.v = {1: ns.v, 2: ns.v} %}{% set ns.w = {1: ns.w, 2: ns.w} %}{% endfor %}",
    // Doubled.
    "{% set ns = namespace(v='ab', w='ab') %}{% for i in range(60) %}{% set ns.v = ns.v + ns.v %}{% endfor %}",
    "{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(60) %}{% set ns.v = ns.v + ns.v %}{% endfor %}",
    // In a circle.
    "{% set ns = namespace(w=1) %}{% set ns.v = [ns] %}",
];

#[test]
fn values_are_bounded_whatever_is_done_with_them() {
    for made in MADE {
        for used in USES {
            // Whether it fails depends on the use, but it must terminate.
            _ = render(&format!("{made}{{% set v = ns.v %}}{{% set w = ns.w %}}{used}"));
        }
    }
    for used in ["{{ v }}", "{{ v|tojson }}", "{{ v == w }}", "{{ '%s' % [v] }}"] {
        let used = format!("{{% set v = ns.v %}}{{% set w = ns.w %}}{used}");
        let failed = render(&format!("{}{used}", MADE[0])).unwrap_err();
        assert!(failed.contains("levels deep"), "{failed}");
        let failed = render(&format!("{}{used}", MADE[3])).unwrap_err();
        assert!(failed.contains("MiB") || failed.contains("steps"), "{used}: {failed}");
    }
}

/// Templates that exceed a limit.
const MUCH: [&str; 51] = [
    "{{ '{:>10000000000}'.format(5) }}",
    "{{ '{:>99999999999999999999999999}'.format(5) }}",
    "{{ '{:.10000000000f}'.format(1.5) }}",
    "{{ '{:.10000000000}'.format(1.5) ~ '{:.999999999e}'.format(1.5) }}",
    "{{ '{:{w}}'.format(5, w=10000000000) }}",
    "{{ '%10000000000d' % 5 }}",
    "{{ '%.10000000000f' % 5 }}",
    "{{ '%.10000000000d' % 5 }}",
    "{{ '%*d' % (10000000000, 5) }}",
    "{{ '%s' * 10000000 % x }}",
    "{{ 'x' * 10000000000 }}",
    "{{ [1] * 10000000000 }}",
    "{{ (1,) * 10000000000 }}",
    "{{ 'x'.center(10000000000) }}",
    "{{ 'x'.ljust(10000000000) }}",
    "{{ 'x'.zfill(10000000000) }}",
    "{{ 'x'|center(10000000000) }}",
    "{{ '\t\t'.expandtabs(10000000000) }}",
    "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
    "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
    "{{ ('x' * 1000000)|replace('x', 'y' * 1000000) }}",
    "{{ ('y' * 1000000).join('x' * 1000000) }}",
    "{{ ('x' * 1000000)|join('y' * 1000000) }}",
    "{{ ('x\n' * 1000000)|indent(10000000) }}",
    "{{ 'x'|indent(10000000000, true) }}",
    "{{ [[1] * 100000]|tojson(indent='y' * 1000000) }}",
    "{{ [1]|tojson(indent=10000000000) }}",
    "{{ ([1] * 100000)|tojson(separators=('y' * 1000000, ':')) }}",
    "{{ [1]|batch(10000000000, 0)|list }}",
    "{{ [1]|slice(10000000000)|list }}",
    "{{ range(10000000000)|list }}",
    "{{ 10 ** 10000000000 }}",
    "{{ 10 ** 100 }}",
    "{{ n ** n ** n }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for a in range(100000) %}{{ range(100000)|sort|sum }}{% endfor %}",
    "{% for a in range(100000) %}{% if a in range(100000)|list %}{% endif %}{% endfor %}",
    "{% for a in range(100000) %}{{ x * 100000 }}{% endfor %}",
    "{% for a in range(100000) %}{% set y = ('x' * 1000000).upper() %}{% endfor %}",
    "{% for a in range(100000) %}{% if ('x' * 1000000).find('y') == 0 %}{% endif %}{% endfor %}",
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}{% endcall %}{% endmacro %}{{ b() }}",
    "{% macro m() %}{{ ([1]|map('nope')|list) ~ m() }}{% endmacro %}{{ [m]|map('string')|list ~ m() }}",
    "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% macro twice(n) %}{% if n %}{{ twice(n - 1) }}{{ twice(n - 1) }}{% endif %}{% endmacro %}{{ twice(60) }}",
    "{% macro m(d=m()) %}{% endmacro %}{{ m() }}",
    "{% for a in range(100000) %}{% set s %}{{ 'x' * 10000 }}{% endset %}{{ s|escape|urlencode }}{% endfor %}",
    "{% for a in range(100000) %}{{ ('&' * 1000000)|striptags }}{% endfor %}",
    "{% set d = dict.fromkeys(range(100000)|map('string')) %}{{ ('{a}' * 1000000).format(a=1, **d)|length }}",
    "{% filter upper %}{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}{% endfilter %}",
    "{% set ns = namespace(l=[]) %}{% for a in range(100000) %}{% set ns.l = ns.l + [a] %}{% endfor %}",
];

#[test]
fn nothing_takes_all_memory_stack_or_time() {
    for template in MUCH {
        let failed = render(template);
        assert!(failed.is_err(), "{template}");
    }
    // The work of a name is linear in its length.
    let name = "a".repeat(200_000);
    for used in [format!("{{{{ {name} }}}}"), format!("{{{{ x.{name} }}}}")] {
        let failed = render(&format!("{{% for a in range(100000) %}}{used}{{% endfor %}}"));
        assert!(failed.is_err_and(|why| why.contains("steps") || why.contains("MiB")), "{}", &used[..10]);
    }
}

#[test]
fn sources_may_nest_and_be_long_up_to_a_limit() {
    for (open, inside, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{1:", "1", "}"),
        ("-", "1", ""),
        ("not ", "1", ""),
        ("x(", "1", ")"),
        ("x[", "1", "]"),
        ("1 if 1 else ", "1", ""),
        ("x|default(", "1", ")"),
    ] {
        let nested = |levels: usize| format!("{{{{ {}{inside}{} }}}}", open.repeat(levels), close.repeat(levels));
        let failed = render(&nested(30_000)).unwrap_err();
        assert!(failed.contains("nested too deeply"), "{open}: {failed}");
        let shallow = render(&nested(20)).err().unwrap_or_default();
        assert!(!shallow.contains("nested"), "{open}: {shallow}");
    }
    for (open, close) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for i in [1] %}", "{% endfor %}"),
        ("{% macro m() %}", "{% endmacro %}"),
        ("{% with %}", "{% endwith %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% set x %}", "{% endset %}"),
        ("{% call x() %}", "{% endcall %}"),
        ("{% generation %}", "{% endgeneration %}"),
    ] {
        let failed = render(&format!("{}{}", open.repeat(10_000), close.repeat(10_000))).unwrap_err();
        assert!(failed.contains("nested too deeply"), "{open}: {failed}");
    }
    // Long expressions without nesting are not deep.
    for link in
        ["/1", ".a", "|e", "()", "[0]", "~1", "+1", "**1", " and 1", " or 1", "==1", ",1", " if 1", "(1)|e", " is odd"]
    {
        _ = render(&format!("{{{{ 1{} }}}}", link.repeat(400_000 / link.len())));
    }
    let sum = format!("{{{{ 1{} }}}}", "+1".repeat(100_000));
    assert_eq!(render(&sum).as_deref(), Ok("100001"));
    let elif = format!("{{% if 0 %}}{}{{% else %}}b{{% endif %}}", "{%elif 0%}".repeat(30_000));
    assert_eq!(render(&elif).as_deref(), Ok("b"));
    assert!(render(&"{{ a }}".repeat(1 << 17)).unwrap_err().contains("longer than 524288 bytes"));
    for unit in ["{{1}}", "{%set a=1%}", "{#", "{%raw%}", "'", "{{'", "{", "{{{", "[", "\\", "{{a.", "{%for a in b%}"] {
        _ = render(&unit.repeat((1 << 19) / unit.len()));
    }
}

#[test]
fn circles_and_chains_of_objects_are_freed() {
    for template in [
        "{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = [ns, ns.keys] %}",
        "{% set ns = namespace(p=0) %}{% for i in range(50000) %}{% set n = namespace(p=ns.p) %}{% set ns.p = n %}{% endfor %}",
        "{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% set p = ns.l %}{% for x in [1] recursive %}{% set ns.l = loop %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(m=0) %}{% for i in range(20000) %}{% set p = ns.m %}{% macro m() %}{{ p }}{% endmacro %}{% set ns.m = m %}{% endfor %}",
        "{% set ns = namespace(m=0) %}{% for i in range(20000) %}{% set p = ns.m %}{% if 1 %}{% with %}{% macro m() %}{% endmacro %}{% set ns.m = m %}{% endwith %}{% endif %}{% endfor %}",
        "{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}",
    ] {
        let rendered = render(template);
        assert!(rendered.is_ok(), "{template}: {rendered:?}");
    }
    for template in [
        "{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% for x in [ns.l] %}{% set ns.l = loop %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set ns.l = [ns.l.copy] %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set ns.l = cycler(ns.l) %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set ns.l = [ns.l]|map('list') %}{% endfor %}",
        "{% set ns = namespace(l={}) %}{% for i in range(20000) %}{% set ns.l = {1: ns.l.items()} %}{% endfor %}",
    ] {
        let failed = render(template).unwrap_err();
        assert!(failed.contains("levels deep"), "{template}: {failed}");
    }
}
