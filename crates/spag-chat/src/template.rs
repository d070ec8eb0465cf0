//! Chat templates in Jinja, rendered as `transformers` does.

use std::fmt;

use serde_json::{Map, Value as Json};
use spag_io::quote;
use spag_model::Tokenizer;

use crate::jinja::{Dialect, Error, Fault, Template};

/// The chat template of a checkpoint.
///
/// The work of a rendering is limited, so an untrusted template can at worst return an error.
pub struct ChatTemplate {
    source: String,
    template: Template,
    /// `bos_token` and the other special tokens available to templates.
    special_tokens: Map<String, Json>,
}

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// The template refuses the messages with `raise_exception`.
    Refused(String),
    /// The template fails on them.
    Failed(String),
}

impl RenderError {
    fn into_reason(self) -> String {
        match self {
            Self::Refused(why) | Self::Failed(why) => why,
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "The model's chat template refuses these messages: {}", quote(why)),
            Self::Failed(why) => write!(f, "The model's chat template fails on these messages: {}", quote(why)),
        }
    }
}

impl From<Error> for RenderError {
    fn from(error: Error) -> Self {
        match error.fault() {
            Fault::Raised(why) => Self::Refused(why.clone()),
            Fault::Failed(why) => Self::Failed(format!("{why} (chat_template:{})", error.line())),
        }
    }
}

impl ChatTemplate {
    /// Loads the template of a tokenizer's folder: `chat_template.jinja`, or the key `chat_template` of
    /// `tokenizer_config.json`, a text or a list of named templates, of which `default` is used. `None` if there is no
    /// template.
    ///
    /// # Errors
    /// The template is invalid.
    pub fn of(tokenizer: &Tokenizer) -> Result<Option<Self>, String> {
        let config = object(tokenizer.file("tokenizer_config.json"));
        let map = object(tokenizer.file("special_tokens_map.json"));
        let source = match tokenizer.file("chat_template.jinja") {
            Some(file) => Some(String::from_utf8(file.to_vec()).map_err(|_| "chat_template.jinja is not UTF-8")?),
            None => named(config.get("chat_template"))?,
        };
        source.map(|source| Self::new(source, special_tokens(tokenizer, &config, &map))).transpose()
    }

    /// A template, with the special tokens available to it.
    ///
    /// # Errors
    /// A syntax error.
    pub fn new(source: String, special_tokens: Map<String, Json>) -> Result<Self, String> {
        let template = Template::new(&source, Dialect::Transformers);
        let template = template.map_err(|error| RenderError::from(error).into_reason())?;
        Ok(Self { source, template, special_tokens })
    }

    /// The source of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation. `more` are further variables of the template, such as `add_generation_prompt`.
    ///
    /// # Errors
    /// The template refuses the messages, fails on them or exceeds a limit.
    pub fn render(&self, messages: &[Json], more: &Map<String, Json>) -> Result<String, RenderError> {
        let mut variables = self.special_tokens.clone();
        variables.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        let messages = messages.iter().cloned().map(with_reasoning).collect();
        variables.insert("messages".into(), Json::Array(messages));
        Ok(self.template.render(&variables)?)
    }
}

/// A message with its reasoning under the names that templates read, as in transformers.
fn with_reasoning(message: Json) -> Json {
    let Json::Object(message) = message else { return message };
    let found = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| message.get(*name).filter(|found| !found.is_null()));
    let Some(found) = found.cloned() else { return Json::Object(message) };
    let mut named = Map::from_iter([("thinking".to_owned(), found.clone())]);
    named.extend(message);
    named.insert("reasoning_content".to_owned(), found);
    Json::Object(named)
}

/// The special tokens of a folder by their template names, falling back to the tokenizer's own BOS and EOS.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, messages: Json) -> Result<String, RenderError> {
        let template = ChatTemplate::new(source.into(), Map::new()).unwrap();
        template.render(messages.as_array().unwrap(), &Map::new())
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
