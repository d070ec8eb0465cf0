//! Chat templates: Jinja as `transformers` renders it.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value as Json};
use spag_io::{catch_panic, catch_template_panic, error_chain, quote};
use spag_model::Tokenizer;

use crate::json;

/// The work of a rendering, in minijinja's units: some seconds, or some 600 MB of text.
const FUEL: u64 = 10_000_000;
/// The name of the template within its environment.
const NAME: &str = "chat_template";

/// The template of a checkpoint.
///
/// The work of a rendering is limited, so that a template from anywhere is an error at worst.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    /// `bos_token` and the other special tokens that templates may name.
    special_tokens: Map<String, Json>,
}

/// Why there is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// The template refuses the messages with `raise_exception`.
    Refused(String),
    /// The template fails on them.
    Failed(String),
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "The model's chat template refuses these messages: {}", quote(why)),
            Self::Failed(why) => write!(f, "The model's chat template fails on these messages: {}", quote(why)),
        }
    }
}

/// The source of an error by `raise_exception`.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl ChatTemplate {
    /// The template of a tokenizer's folder: `chat_template.jinja`, or the key `chat_template` of `tokenizer_config.json`,
    /// which is a text or a list of named ones, of which `default` is taken. `None` without a template.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub fn of(tokenizer: &Tokenizer) -> Result<Option<Self>, String> {
        let config = object(tokenizer.file("tokenizer_config.json"));
        let map = object(tokenizer.file("special_tokens_map.json"));
        let source = match tokenizer.file("chat_template.jinja") {
            Some(file) => Some(String::from_utf8(file.to_vec()).map_err(|_| "chat_template.jinja is not UTF-8")?),
            None => named(config.get("chat_template"))?,
        };
        source.map(|source| Self::new(source, special_tokens(tokenizer, &config, &map))).transpose()
    }

    /// A template with the special tokens that it may name.
    ///
    /// # Errors
    /// A syntax error.
    pub fn new(source: String, special_tokens: Map<String, Json>) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        let adapted = without_generation_tags(&source);
        catch_template_panic(&source, || environment.add_template_owned(NAME, adapted))
            .and_then(|added| added.map_err(|error| error_chain(&error)))?;
        Ok(Self { source, environment, special_tokens })
    }

    /// The template as it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation. `more` are further variables of the template, such as `add_generation_prompt`.
    ///
    /// # Errors
    /// The template refuses the messages, fails on them or takes too long.
    pub fn render(&self, messages: &[Json], more: &Map<String, Json>) -> Result<String, RenderError> {
        let mut variables = self.special_tokens.clone();
        variables.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        variables.insert("messages".into(), Json::Array(messages.to_vec()));
        let rendered = catch_panic(|| {
            self.environment.get_template(NAME)?.render(Value::from(Serde(&variables))).map(|text| text.to_owned())
        });
        match rendered {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(raised(&error).unwrap_or_else(|| RenderError::Failed(error_chain(&error)))),
            // Its text is not for those who sent the messages.
            Err(_) => Err(RenderError::Failed("it cannot be rendered with these messages".to_owned())),
        }
    }
}

/// The special tokens of a folder as templates name them, with the tokenizer's own BOS and EOS if no file does.
pub fn special_tokens(tokenizer: &Tokenizer, config: &Map<String, Json>, map: &Map<String, Json>) -> Map<String, Json> {
    const ROLES: [&str; 7] =
        ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];
    let content = |token: &Json| Some(token.as_str().or_else(|| token.get("content")?.as_str())?.to_owned());
    let mut tokens = Map::new();
    for role in ROLES {
        let own = match role {
            "bos_token" => tokenizer.bos_token(),
            "eos_token" => Some(tokenizer.eos()),
            _ => None,
        };
        let named = [config, map].into_iter().find_map(|file| content(file.get(role)?));
        let named = named.or_else(|| tokenizer.token(own?));
        tokens.extend(named.map(|text| (role.to_owned(), text.into())));
    }
    tokens
}

/// The object in a JSON file, empty if there is none.
pub fn object(file: Option<&[u8]>) -> Map<String, Json> {
    file.and_then(|file| serde_json::from_slice(file).ok()).unwrap_or_default()
}

fn named(template: Option<&Json>) -> Result<Option<String>, String> {
    match template {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(one)) => Ok(Some(one.clone())),
        Some(Json::Array(several)) => {
            let text = |entry: &Json, key: &str| entry.get(key).and_then(Json::as_str).map(str::to_owned);
            let default = several.iter().find(|entry| text(entry, "name").as_deref() == Some("default"));
            match default.and_then(|entry| text(entry, "template")) {
                Some(template) => Ok(Some(template)),
                None => Err("tokenizer_config.json has named chat templates, and none is named `default`".into()),
            }
        }
        Some(_) => Err("chat_template in tokenizer_config.json is neither a text nor a list".into()),
    }
}

/// `{% generation %}` marks what a model is trained on; for rendering it is a block that is always taken.
fn without_generation_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        text.push_str(before);
        text.push_str("{%");
        let Some((inside, after)) = tag.split_once("%}") else {
            rest = tag;
            continue;
        };
        let replacement = match inside.trim_matches(['-', '+']).trim() {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(block) => {
                let name = inside.trim_matches(['-', '+']).trim();
                text.push_str(&inside.replacen(name, &format!(" {block} "), 1));
                text.push_str("%}");
                rest = after;
            }
            None => rest = tag,
        }
    }
    text + rest
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn raised(error: &Error) -> Option<RenderError> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Raised(message)) = error.downcast_ref() {
            return Some(RenderError::Refused(message.clone()));
        }
        cause = error.source();
    }
    None
}

/// The current local time, as Python's `strftime` writes it.
fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now())
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
}

/// `json.dumps` with `ensure_ascii=False` by default.
fn to_json(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let invalid = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    let indent = match indent.or(options.get("indent")?).filter(|indent| indent.kind() == ValueKind::Number) {
        Some(indent) => Some(usize::try_from(indent)?.min(32)),
        None => None,
    };
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    let _separators: Option<Value> = options.get("separators")?;
    options.assert_all_used()?;
    let value: Json = serde_json::to_value(value).map_err(|error| invalid(format!("tojson: {error}")))?;
    let style = json::Style { indent, ascii: ascii.unwrap_or(false), sorted: sorted.unwrap_or(false) };
    json::dumps(&value, style).map(Value::from_safe_string).map_err(|error| invalid(format!("tojson: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, messages: Json) -> Result<String, RenderError> {
        let template = ChatTemplate::new(source.into(), Map::new()).unwrap();
        template.render(messages.as_array().unwrap(), &Map::new())
    }

    #[test]
    fn long_chains_do_not_exhaust_the_stack() {
        let compiled = |source: String| ChatTemplate::new(source, Map::new());
        for link in ["/a", ".a", "|e", "()", "[0]", "~a", " if a else a"] {
            _ = compiled(format!("{{{{ a{} }}}}", link.repeat(30_000 / link.len())));
        }
        _ = compiled(format!("{{{{ {}a }}}}", "-".repeat(12_000)));
        let elif = compiled(format!("{{% if a %}}{}{{% endif %}}b", "{%elif a%}".repeat(3_000))).unwrap();
        assert_eq!(elif.render(&[], &Map::new()), Ok("b".to_owned()));
        assert!(compiled("{{ a }}".repeat(1 << 16)).err().unwrap().contains("longer than 32768 bytes"));
    }

    #[test]
    fn conversations_are_rendered_as_transformers_renders_them() {
        let folder = spag_tests::fixture("chat_templates");
        let cases = spag_tests::json(folder.join("cases.json"));
        let (mut rendered, mut refused) = (0, 0);
        for case in cases.as_array().unwrap() {
            let name = case["template"].as_str().unwrap();
            let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
            let object = |key: &str| case[key].as_object().unwrap().clone();
            let source = source.strip_suffix('\n').unwrap().to_owned();
            let template = ChatTemplate::new(source, object("special_tokens")).unwrap();
            let ours = template.render(case["messages"].as_array().unwrap(), &object("variables"));
            match case["expected"].as_str() {
                Some(expected) => assert_eq!(ours.as_deref(), Ok(expected), "{case}"),
                None => assert_eq!(ours, Err(RenderError::Refused(case["error"].as_str().unwrap().into())), "{case}"),
            }
            rendered += usize::from(case["expected"].is_string());
            refused += usize::from(case["error"].is_string());
        }
        assert!(rendered > 100 && refused > 10, "{rendered} {refused}");
    }

    #[test]
    fn exceptions_of_templates_are_their_text_and_other_errors_say_where() {
        let refused = render("{{ raise_exception('Roles must alternate') }}", json!([])).unwrap_err();
        assert_eq!(refused, RenderError::Refused("Roles must alternate".into()));
        let failed = render("\n{{ messages[0].content.nothing.more }}", json!([{"content": "x"}])).unwrap_err();
        assert!(matches!(&failed, RenderError::Failed(why) if why.contains("chat_template:2")), "{failed}");
        assert!(ChatTemplate::new("{% if %}".into(), Map::new()).is_err());
    }

    #[test]
    fn endless_work_of_a_template_is_an_error() {
        for source in [
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            "{{ 'x' * 100000000000 }}",
            "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        ] {
            assert!(matches!(render(source, json!([])), Err(RenderError::Failed(_))), "{source}");
        }
    }

    #[test]
    fn generation_marks_are_blocks() {
        let source =
            "{%- for m in messages %}a{% generation %}b{%- endgeneration -%} c{% endfor %}{% set generation = 1 %}";
        assert_eq!(render(source, json!([1, 2])).unwrap(), "abcabc");
    }

    #[test]
    fn strftime_formats_the_date() {
        let text = render("{{ strftime_now('%d %b %Y') }}", json!([])).unwrap();
        assert_eq!((text.len(), text.split(' ').count()), (11, 3), "{text}");
        assert!(matches!(render("{{ strftime_now('%!') }}", json!([])), Err(RenderError::Failed(_))));
    }

    #[test]
    fn the_default_of_named_templates_is_taken() {
        let list = json!([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]);
        assert_eq!(named(Some(&list)), Ok(Some("d".into())));
        assert!(named(Some(&json!([{"name": "rag", "template": "r"}]))).is_err() && named(Some(&json!(1))).is_err());
        assert_eq!((named(None), named(Some(&json!("x")))), (Ok(None), Ok(Some("x".into()))));
    }
}
