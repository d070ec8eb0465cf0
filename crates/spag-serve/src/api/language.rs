//! Fields of guided decoding: OpenAI's `response_format`, and those of vLLM.

use serde_json::{Map, Value};
use spag_grammar::Language;

use super::error::ApiError;
use super::fields::{Fields, shown};
use crate::json_size::JsonSize;

/// The requested language, and the field that requests it.
///
/// # Errors
/// More than one language is requested, or it is malformed.
pub(super) fn language(fields: &mut Fields) -> Result<Option<(&'static str, Language)>, ApiError> {
    let mut found = Vec::new();
    let mut add = |name, language: Option<Language>| found.extend(language.map(|language| (name, language)));
    add("response_format", response_format(fields)?);
    add("structured_outputs", structured_outputs(fields)?);
    for (name, of) in [
        ("guided_json", json as fn(&str, Value) -> Result<Language, ApiError>),
        ("guided_regex", |name, value| text(name, value).map(Language::Regex)),
        ("guided_grammar", |name, value| text(name, value).map(Language::Lark)),
        ("guided_choice", choices),
    ] {
        add(name, fields.take(name).map(|value| of(name, value)).transpose()?);
    }
    match &found[..] {
        [_, (second, _), ..] => Err(ApiError::field(*second, format_args!("it is given beside {}", found[0].0))),
        [(name, language)] => {
            language.check_size().map_err(|error| ApiError::field(*name, error))?;
            Ok(found.pop())
        }
        [] => Ok(None),
    }
}

fn response_format(fields: &mut Fields) -> Result<Option<Language>, ApiError> {
    const NAME: &str = "response_format";
    let Some(format) = fields.object(NAME)? else { return Ok(None) };
    let within = |error: ApiError| error.within(NAME);
    let mut format = Fields::new(format);
    let kind = format.text("type").map_err(within)?.unwrap_or_default();
    let language = match kind.as_str() {
        "text" => None,
        "json_object" => Some(Language::JsonObject),
        "json_schema" => {
            let schema = format.object("json_schema").map_err(within)?.unwrap_or_default();
            Some(json_schema(schema).map_err(|error| error.within("json_schema")).map_err(within)?)
        }
        other => {
            let problem = format!("expected text, json_object or json_schema, not {}", spag_io::quote(other));
            return Err(ApiError::field("response_format.type", problem));
        }
    };
    format.finish(&[]).map_err(within)?;
    Ok(language)
}

/// The schema in `json_schema`. Its `name`, `description` and `strict` have no effect: the schema is always
/// enforced.
fn json_schema(schema: Map<String, Value>) -> Result<Language, ApiError> {
    let mut fields = Fields::new(schema);
    let schema = fields.take("schema").ok_or_else(|| ApiError::field("schema", "it is missing"))?;
    fields.finish(&["name", "description", "strict"])?;
    json("schema", schema)
}

/// vLLM's object with one of `json`, `regex`, `choice`, `grammar` and `json_object`.
fn structured_outputs(fields: &mut Fields) -> Result<Option<Language>, ApiError> {
    const NAME: &str = "structured_outputs";
    let Some(outputs) = fields.object(NAME)? else { return Ok(None) };
    let within = |error: ApiError| error.within(NAME);
    let mut outputs = Fields::new(outputs);
    let mut found = Vec::new();
    found.extend(outputs.take("json").map(|value| json("json", value)));
    found.extend(outputs.take("regex").map(|value| text("regex", value).map(Language::Regex)));
    found.extend(outputs.take("choice").map(|value| choices("choice", value)));
    found.extend(outputs.take("grammar").map(|value| text("grammar", value).map(Language::Lark)));
    if outputs.truth("json_object").map_err(within)? == Some(true) {
        found.push(Ok(Language::JsonObject));
    }
    outputs.finish(&[]).map_err(within)?;
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(language), None) => language.map(Some).map_err(within),
        _ => Err(ApiError::field(NAME, "expected one of json, regex, choice, grammar and json_object")),
    }
}

/// A schema as an object or as JSON text.
fn json(name: &str, value: Value) -> Result<Language, ApiError> {
    let wrong =
        |error: &dyn std::fmt::Display| ApiError::field(name, format_args!("the schema is not valid JSON: {error}"));
    let schema = match value {
        Value::String(text) => {
            JsonSize::default().add(text.as_bytes()).map_err(|error| ApiError::field(name, error))?;
            serde_json::from_str(&text).map_err(|error| wrong(&error))?
        }
        other => other,
    };
    Ok(Language::JsonSchema(schema))
}

fn text(name: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(ApiError::field(name, format_args!("expected a string, not {}", shown(&other)))),
    }
}

fn choices(name: &str, value: Value) -> Result<Language, ApiError> {
    let wrong = || ApiError::field(name, "expected a list of strings");
    let Value::Array(list) = value else { return Err(wrong()) };
    let texts = list.into_iter().map(|choice| text(name, choice).map_err(|_| wrong()));
    Ok(Language::Choice(texts.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(request: Value) -> Result<Option<Language>, String> {
        let Value::Object(request) = request else { unreachable!() };
        let mut fields = Fields::new(request);
        let language = language(&mut fields).map_err(|error| error.message)?;
        fields.finish(&[]).map_err(|error| error.message)?;
        Ok(language.map(|(_, language)| language))
    }

    #[test]
    fn languages_of_openai_and_of_vllm_are_read() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        let regex = || Language::Regex("a+".into());
        let of_schema = || Language::JsonSchema(schema.clone());
        let named = json!({"name": "x", "strict": true, "schema": schema});
        for (request, language) in [
            (json!({}), None),
            (json!({"response_format": {"type": "text"}}), None),
            (json!({"response_format": {"type": "json_object"}}), Some(Language::JsonObject)),
            (json!({"response_format": {"type": "json_schema", "json_schema": named}}), Some(of_schema())),
            (json!({"guided_json": schema}), Some(of_schema())),
            (json!({"guided_json": schema.to_string()}), Some(of_schema())),
            (json!({"guided_regex": "a+", "guided_json": null}), Some(regex())),
            (json!({"guided_choice": ["a", "b"]}), Some(Language::Choice(vec!["a".into(), "b".into()]))),
            (json!({"guided_grammar": "start: \"a\""}), Some(Language::Lark("start: \"a\"".into()))),
            (json!({"structured_outputs": {"regex": "a+"}}), Some(regex())),
            (json!({"structured_outputs": {"json_object": true}}), Some(Language::JsonObject)),
        ] {
            assert_eq!(read(request.clone()), Ok(language), "{request}");
        }
    }

    #[test]
    fn errors_name_the_field() {
        for (request, said) in [
            (json!({"guided_choice": vec!["a"; 20_000]}), "guided_choice: it has 20000 choices, more than 16384"),
            (json!({"guided_choice": ["a".repeat(300_000)]}), "guided_choice: it has 300000 bytes in all choices"),
            (json!({"guided_regex": "a".repeat(70_000)}), "guided_regex: it has 70000 bytes"),
            (json!({"guided_grammar": "a".repeat(40_000)}), "guided_grammar: it has 40000 bytes"),
            (json!({"guided_json": {"enum": ["a".repeat(70_000)]}}), "guided_json: it has 70013 bytes"),
            (json!({"structured_outputs": {"regex": "a".repeat(70_000)}}), "structured_outputs: it has 70000 bytes"),
            (json!({"response_format": "json"}), "response_format: expected an object"),
            (json!({"response_format": {"type": "xml"}}), "response_format.type: expected text, json_object"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema: it is missing"),
            (json!({"response_format": {"type": "json_object", "x": 1}}), "response_format.x: Unrecognized"),
            (json!({"guided_json": "{"}), "guided_json: the schema is not valid JSON"),
            (json!({"guided_choice": [1]}), "guided_choice: expected a list of strings"),
            (json!({"guided_regex": 3}), "guided_regex: expected a string, not 3"),
            (json!({"guided_regex": "a", "guided_choice": ["b"]}), "guided_choice: it is given beside guided_regex"),
            (json!({"structured_outputs": {}}), "structured_outputs: expected one of"),
            (json!({"structured_outputs": {"regex": "a", "json": {}}}), "structured_outputs: expected one of"),
            (json!({"structured_outputs": {"regex": 1}}), "structured_outputs.regex: expected a string"),
        ] {
            let error = read(request.clone()).unwrap_err();
            assert!(error.starts_with(said), "{request}: {error}");
        }
    }
}
