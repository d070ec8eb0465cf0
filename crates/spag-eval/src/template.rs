//! Templates over the fields of a row: Jinja, as lm-evaluation-harness uses it.

use serde_json::{Map, Value};
use spag_chat::jinja::{Dialect, Error, Expression, Template};
use spag_io::quote;

use crate::config::Listed;

/// The fields of a row.
pub(crate) type Fields = Map<String, Value>;

/// The text of a template: a field, or the rendered text.
pub(crate) fn text(template: &str, fields: &Fields) -> Result<String, String> {
    match value(template, fields)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("`{}` is {}, not a text", quote(template), kind(&other))),
    }
}

/// As [`text`], but a text without braces is that text.
pub(crate) fn literal(template: &str, fields: &Fields) -> Result<String, String> {
    if template.contains('{') { text(template, fields) } else { Ok(template.to_owned()) }
}

/// The value of a field, of `{{ an expression }}`, or a rendered text.
pub(crate) fn value(template: &str, fields: &Fields) -> Result<Value, String> {
    if let Some(value) = fields.get(template) {
        return Ok(value.clone());
    }
    if !template.contains('{') {
        return Err(format!("there is no field `{}`; {}", quote(template), known(fields)));
    }
    rendered(template, fields).map_err(|error| {
        format!("the template `{}` fails: {}; {}", quote(template), quote(&error.to_string()), known(fields))
    })
}

/// The texts of a list.
pub(crate) fn list(listed: &Listed, fields: &Fields) -> Result<Vec<String>, String> {
    let template = match listed {
        Listed::Each(templates) => return templates.iter().map(|each| literal(each, fields)).collect(),
        Listed::One(template) => template,
    };
    let Value::Array(values) = value(template, fields)? else {
        return Err(format!("`{}` is not a list", quote(template)));
    };
    let texts = values.into_iter().map(|value| match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("`{}` has {}, not only texts", quote(template), kind(&other))),
    });
    texts.collect()
}

fn rendered(template: &str, fields: &Fields) -> Result<Value, Error> {
    match expression(template) {
        Some(expression) => Expression::new(expression, Dialect::EvaluationHarness)?.value(fields),
        None => Template::new(template, Dialect::EvaluationHarness)?.render(fields).map(Value::String),
    }
}

/// The expression of a template that is nothing else.
fn expression(template: &str) -> Option<&str> {
    let inside = template.strip_prefix("{{")?.strip_suffix("}}")?;
    (!["{{", "}}", "{%"].iter().any(|mark| inside.contains(mark))).then_some(inside.trim_matches('-'))
}

fn known(fields: &Fields) -> String {
    let names: Vec<String> = fields.keys().take(30).map(|name| quote(name)).collect();
    if names.is_empty() { "the row has no fields".into() } else { format!("the row has {}", names.join(", ")) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields() -> Fields {
        json!({"q": "What?", "n": 3, "many": ["a", "b"], "nested": {"text": ["x", "y"]}, "null": null})
            .as_object()
            .unwrap()
            .clone()
    }

    #[test]
    fn fields_expressions_and_texts_have_their_values() {
        let text = |template: &str| super::text(template, &fields());
        assert_eq!(text("q").unwrap(), "What?");
        assert_eq!(text("{{q.strip('?')}}:\n").unwrap(), "What:\n");
        assert_eq!(text("{{n}}").unwrap(), "3");
        assert_eq!(text("{% if n == 3 %}three{% endif %}").unwrap(), "three");
        let list = |template: &str| super::list(&Listed::One(template.into()), &fields());
        assert_eq!(list("many").unwrap(), ["a", "b"]);
        assert_eq!(list("{{nested.text}}").unwrap(), ["x", "y"]);
        assert_eq!(list("{{ [q, n] }}").unwrap(), ["What?", "3"]);
        let each = Listed::Each(vec!["q".into(), "{{q}}".into()]);
        assert_eq!(super::list(&each, &fields()).unwrap(), ["q", "What?"]);
    }

    #[test]
    fn long_chains_do_not_exhaust_the_stack() {
        let text = |template: String| super::text(&template, &fields());
        for link in ["/n", ".n", "|e", "()", "[0]", "~n", " if n else n"] {
            // Whether the text means something does not matter.
            _ = text(format!("{{{{ n{} }}}}", link.repeat(30_000 / link.len())));
        }
        _ = text(format!("{{{{ {}n }}}}", "-".repeat(12_000)));
        _ = text(format!("{{% if n %}}{}{{% endif %}}", "{%elif n%}".repeat(3_000)));
        assert_eq!(text(format!("{{{{ n{} }}}}", "~n".repeat(9_999))).unwrap(), "3".repeat(10_000));
        let said = text(format!("{{{{ n{} }}}}", "/n".repeat(1 << 19))).unwrap_err();
        assert!(said.contains("longer than 524288 bytes") && said.len() < 1000, "{said}");
    }

    #[test]
    fn what_a_row_lacks_is_an_error_that_names_the_fields() {
        for template in ["question", "{{question}}", "{{ nested.question }}", "a {{nested.question}}", "many", "null"] {
            let error = super::text(template, &fields()).unwrap_err();
            assert!(error.contains("many") || error.contains("null"), "{template}: {error}");
        }
        assert!(super::list(&Listed::One("q".into()), &fields()).unwrap_err().contains("not a list"));
        assert!(super::text("{{ q", &fields()).unwrap_err().contains("fails"));
        assert!(
            super::text("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", &fields())
                .is_err()
        );
    }
}
