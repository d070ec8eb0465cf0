//! Expressions and statements, compared with transformers' output.

use serde_json::{Map, Value, json};
use spag_chat::jinja::{Dialect, Fault, Template};
use spag_chat::{ChatTemplate, RenderError};

/// The text of a template, or its error.
fn render(template: &str, variables: &Map<String, Value>) -> Result<String, String> {
    let render = || Template::new(template, Dialect::Transformers)?.render(variables);
    render().map_err(|error| error.to_string())
}

#[test]
fn templates_are_rendered_as_transformers_renders_them() {
    let fixture = spag_tests::json(spag_tests::fixture("chat_templates").join("expressions.json"));
    let variables = fixture["variables"].as_object().unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let template = case["template"].as_str().unwrap();
        match (render(template, variables), case["rendered"].as_str()) {
            (Ok(ours), Some(theirs)) if ours == theirs => {}
            (Err(_), None) => {}
            (ours, _) => {
                wrong.push(format!("{template}\n   ours {ours:?}\n theirs {} {}", case["rendered"], case["error"]))
            }
        }
    }
    assert!(cases.len() > 300, "{}", cases.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn errors_name_the_line() {
    let failed = render("a\n{% if true %}\n{{ nothing.x }}{% endif %}", &Map::new()).unwrap_err();
    assert_eq!(failed, "line 3: 'nothing' is undefined");
    let syntax = render("a\n{{ 1 +\n }}", &Map::new()).unwrap_err();
    assert!(syntax.starts_with("line 3: "), "{syntax}");
    let raised = Template::new("\n{{ raise_exception('x') }}", Dialect::Transformers).unwrap().render(&Map::new());
    assert_eq!(raised.map_err(|error| (error.line(), error.fault().clone())), Err((2, Fault::Raised("x".into()))));
}

#[test]
fn what_is_left_out_of_jinja_is_named() {
    for (source, name) in [
        ("{{ 'x'|pprint }}", "'pprint' is not supported"),
        ("{{ ['x']|map('urlize')|list }}", "'urlize' is not supported"),
        ("{{ 'x'|wordwrap(3) }}", "'wordwrap' is not supported"),
        ("{{ {}|xmlattr }}", "'xmlattr' is not supported"),
        ("{% autoescape true %}{% endautoescape %}", "`autoescape` is not supported"),
        ("{{ lipsum() }}", "'lipsum' is undefined"),
        ("{{ 'x'|nope }}", "No filter named 'nope'"),
    ] {
        let failed = render(source, &Map::new()).unwrap_err();
        assert!(failed.contains(name), "{source}: {failed}");
    }
}

#[test]
fn what_is_missing_is_an_error_to_the_evaluation_harness() {
    let variables = json!({"a": 1}).as_object().unwrap().clone();
    let text = |source: &str| Template::new(source, Dialect::EvaluationHarness).unwrap().render(&variables);
    assert_eq!(text("  {% if a is defined and b is not defined %}\nx\n{% endif %}\n").as_deref(), Ok("  \nx\n\n"));
    for missing in
        ["{{ b }}", "{{ a.b }}", "{% for x in b %}{% endfor %}", "{% if b %}{% endif %}", "{{ b == 1 }}", "{{ b ~ 1 }}"]
    {
        assert!(text(missing).is_err(), "{missing}");
    }
}

#[test]
fn reasoning_has_all_names_that_templates_read() {
    let source = "{% for m in messages %}{{ m.reasoning_content }}/{{ m.thinking }};{% endfor %}";
    let template = ChatTemplate::new(source.into(), Map::new()).unwrap();
    let messages =
        [json!({"reasoning": "a"}), json!({"thinking": "b"}), json!({"reasoning_content": "c", "thinking": "d"})];
    assert_eq!(template.render(&messages, &Map::new()).as_deref(), Ok("a/a;b/b;c/d;"));
    let refused = ChatTemplate::new("{{ raise_exception('no') }}".into(), Map::new()).unwrap();
    assert_eq!(refused.render(&messages, &Map::new()), Err(RenderError::Refused("no".into())));
}
