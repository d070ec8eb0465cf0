//! Templates over the fields of a row: Jinja, with the methods of Python's texts.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Rendered};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};
use spag_io::{catch_template_panic, error_chain, quote};

use crate::config::Listed;

/// The fields of a row.
pub(crate) type Fields = Map<String, Value>;

/// The work of a rendering, in minijinja's units.
const FUEL: u64 = 10_000_000;

/// Renders templates. Errors are texts that say what is wrong.
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        // As in lm-evaluation-harness. Delimiters are the default ones, which are valid.
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        Self { environment }
    }

    /// The text of a template: a field, or the rendered text.
    pub(crate) fn text(&self, template: &str, fields: &Fields) -> Result<String, String> {
        match self.value(template, fields)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("`{}` is {}, not a text", quote(template), kind(&other))),
        }
    }

    /// As [`Templates::text`], but a text without braces is that text.
    pub(crate) fn literal(&self, template: &str, fields: &Fields) -> Result<String, String> {
        if template.contains('{') { self.text(template, fields) } else { Ok(template.to_owned()) }
    }

    /// The value of a field, of `{{ an expression }}`, or a rendered text.
    pub(crate) fn value(&self, template: &str, fields: &Fields) -> Result<Value, String> {
        if let Some(value) = fields.get(template) {
            return Ok(value.clone());
        }
        if !template.contains('{') {
            return Err(format!("there is no field `{}`; {}", quote(template), known(fields)));
        }
        let variables = Rendered::from(Serde(fields));
        let rendered = catch_template_panic(template, || match expression(template) {
            Some(expression) => {
                let value = self.environment.compile_expression(expression)?.eval(variables)?;
                if value.is_undefined() {
                    return Err(ErrorKind::UndefinedError.into());
                }
                serde_json::to_value(value)
                    .map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
            }
            None => self.environment.render_str(template, variables).map(|text| Value::String(text.to_string())),
        });
        rendered
            .and_then(|rendered| rendered.map_err(|error| error_chain(&error)))
            .map_err(|why| format!("the template `{}` fails: {}; {}", quote(template), quote(&why), known(fields)))
    }

    /// The texts of a list.
    pub(crate) fn list(&self, listed: &Listed, fields: &Fields) -> Result<Vec<String>, String> {
        let template = match listed {
            Listed::Each(templates) => return templates.iter().map(|each| self.literal(each, fields)).collect(),
            Listed::One(template) => template,
        };
        let Value::Array(values) = self.value(template, fields)? else {
            return Err(format!("`{}` is not a list", quote(template)));
        };
        let texts = values.into_iter().map(|value| match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("`{}` has {}, not only texts", quote(template), kind(&other))),
        });
        texts.collect()
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
        let templates = Templates::new();
        let text = |template: &str| templates.text(template, &fields());
        assert_eq!(text("q").unwrap(), "What?");
        assert_eq!(text("{{q.strip('?')}}:\n").unwrap(), "What:\n");
        assert_eq!(text("{{n}}").unwrap(), "3");
        assert_eq!(text("{% if n == 3 %}three{% endif %}").unwrap(), "three");
        let list = |template: &str| templates.list(&Listed::One(template.into()), &fields());
        assert_eq!(list("many").unwrap(), ["a", "b"]);
        assert_eq!(list("{{nested.text}}").unwrap(), ["x", "y"]);
        assert_eq!(list("{{ [q, n] }}").unwrap(), ["What?", "3"]);
        let each = Listed::Each(vec!["q".into(), "{{q}}".into()]);
        assert_eq!(templates.list(&each, &fields()).unwrap(), ["q", "What?"]);
    }

    #[test]
    fn long_chains_do_not_exhaust_the_stack() {
        let templates = Templates::new();
        let text = |template: String| templates.text(&template, &fields());
        for link in ["/n", ".n", "|e", "()", "[0]", "~n", " if n else n"] {
            // Whether the text means something does not matter.
            _ = text(format!("{{{{ n{} }}}}", link.repeat(30_000 / link.len())));
        }
        _ = text(format!("{{{{ {}n }}}}", "-".repeat(12_000)));
        _ = text(format!("{{% if n %}}{}{{% endif %}}", "{%elif n%}".repeat(3_000)));
        assert_eq!(text(format!("{{{{ n{} }}}}", "~n".repeat(9_999))).unwrap(), "3".repeat(10_000));
        let said = text(format!("{{{{ n{} }}}}", "/n".repeat(1 << 17))).unwrap_err();
        assert!(said.contains("longer than 32768 bytes") && said.len() < 1000, "{said}");
    }

    #[test]
    fn what_a_row_lacks_is_an_error_that_names_the_fields() {
        let templates = Templates::new();
        for template in ["question", "{{question}}", "{{ nested.question }}", "a {{nested.question}}", "many", "null"] {
            let error = templates.text(template, &fields()).unwrap_err();
            assert!(error.contains("many") || error.contains("null"), "{template}: {error}");
        }
        assert!(templates.list(&Listed::One("q".into()), &fields()).unwrap_err().contains("not a list"));
        assert!(templates.text("{{ q", &fields()).unwrap_err().contains("fails"));
        assert!(
            templates
                .text("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", &fields())
                .is_err()
        );
    }
}
