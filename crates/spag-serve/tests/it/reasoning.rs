//! Reasoning in chats: in answers, in streams, and in the messages of requests.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_chat::TemplateSettings;
use spag_io::ReasoningFormat;
use spag_model::generate::MemoryBudget;
use spag_model::{Checkpoint, EngineConfig};
use spag_serve::{Background, ModelToServe, Server, ServerConfig};
use spag_tests::{chatml_tiny, copy_folder, root};
use tempfile::TempDir;

/// Writes reasoning of messages between tags.
const PLAIN: &str = "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>\
                     {% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
/// Makes the model think, unless `enable_thinking` is false.
const OPENS: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]\
                     <think>\n{{ '\n</think>\n\n' if enable_thinking is false }}{% endif %}";
const TAGLESS: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

struct Served {
    server: Background,
    _folder: TempDir,
}

fn model(folder: &Path, reasoning: ReasoningFormat, template: TemplateSettings) -> ModelToServe {
    let checkpoint = Checkpoint::load(folder).unwrap();
    let engine = EngineConfig::new(checkpoint.model.config(), 4, MemoryBudget::host());
    let (names, folder) = (vec!["tiny".to_owned()], folder.to_owned());
    ModelToServe { names, checkpoint, folder, engine, adapters: Vec::new(), reasoning, template }
}

/// A server of the tiny model with a chat template.
fn serve(template: &str, reasoning: ReasoningFormat, settings: TemplateSettings) -> Served {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(root().join("data/tiny-llama"), folder.path());
    fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let model = model(folder.path(), reasoning, settings);
    let server = Server::bind(ServerConfig::new("127.0.0.1", 0), vec![model]).unwrap().start();
    Served { server, _folder: folder }
}

fn thinking(template: &str) -> Served {
    serve(template, ReasoningFormat::Think, TemplateSettings::default())
}

impl Served {
    fn post(&self, path: &str, body: &Value) -> String {
        let request = ureq::post(format!("http://{}{path}", self.server.address()));
        let mut response = request.content_type("application/json").send(body.to_string()).unwrap();
        response.body_mut().read_to_string().unwrap()
    }

    fn json(&self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.post(path, body)).unwrap()
    }

    /// The message of a model that can say nothing but `text`.
    fn message(&self, text: &str) -> Value {
        self.json("/v1/chat/completions", &saying(text))["choices"][0]["message"].clone()
    }

    /// The deltas of the same answer, streamed.
    fn deltas(&self, text: &str, index: usize) -> Vec<Value> {
        let mut body = saying(text);
        body["stream"] = true.into();
        body["n"] = 2.into();
        let events = self.post("/v1/chat/completions", &body);
        let events = events.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
        let events = events.filter(|event| *event != "[DONE]").map(|event| serde_json::from_str(event).unwrap());
        let choices = events.map(|event: Value| event["choices"][0].clone());
        choices.filter(|choice| choice["index"] == index).map(|choice| choice["delta"].clone()).collect()
    }

    /// The text of the prompt of a request.
    fn prompt(&self, body: &Value) -> String {
        let tokens = self.json("/tokenize", body)["tokens"].clone();
        self.json("/detokenize", &json!({"tokens": tokens}))["prompt"].as_str().unwrap().to_owned()
    }
}

fn saying(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": "Hi"}], "structured_outputs": {"choice": [text]}, "max_tokens": 100, "seed": 3})
}

fn joined(deltas: &[Value], key: &str) -> String {
    deltas.iter().filter_map(|delta| delta[key].as_str()).collect()
}

#[test]
fn answers_have_reasoning_beside_their_content() {
    let (plain, opens) = (thinking(PLAIN), thinking(OPENS));
    for (served, text, reasoning, content) in [
        (&plain, "<think>\nIt is tea.\n</think>\n\nIs it hot?\n", Some("It is tea."), Some("Is it hot?")),
        (&plain, "<think></think>Is it <think>hot</think>?", None, Some("Is it <think>hot</think>?")),
        (&plain, "<think>It is < tea", Some("It is < tea"), None),
        (&plain, "Is it hot?", None, Some("Is it hot?")),
        (&opens, "It is tea.\n</think>\n\nIs it hot?", Some("It is tea."), Some("Is it hot?")),
        (&opens, "<think>It is tea.</think>Is it hot?", Some("It is tea."), Some("Is it hot?")),
        (&opens, "It is tea. </thi", Some("It is tea. </thi"), None),
    ] {
        let mut expected = json!({"role": "assistant", "content": content, "refusal": null});
        if let Some(reasoning) = reasoning {
            expected["reasoning_content"] = reasoning.into();
        }
        assert_eq!(served.message(text), expected, "{text}");
        for index in 0..2 {
            let deltas = served.deltas(text, index);
            assert_eq!(deltas[0], json!({"role": "assistant", "content": ""}));
            assert_eq!(joined(&deltas, "reasoning_content"), reasoning.unwrap_or_default(), "{deltas:?}");
            assert_eq!(joined(&deltas, "content"), content.unwrap_or_default(), "{deltas:?}");
            let (last, said) = (&deltas[deltas.len() - 1], deltas.iter().skip(1));
            let is_reasoning: Vec<bool> = said.map(|delta| delta.get("reasoning_content").is_some()).collect();
            assert!(*last == json!({}) && is_reasoning.is_sorted_by(|a, b| a >= b), "{deltas:?}");
        }
    }
    // A closing tag alone: of the whole text it is known in time.
    let text = "It is tea.</think>Is it hot?";
    let message = plain.message(text);
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("It is tea."), &json!("Is it hot?")));
    assert_eq!(joined(&plain.deltas(text, 1), "content"), "It is tea.Is it hot?");
}

#[test]
fn every_token_of_a_stream_has_its_log_probability() {
    let mut body = saying("<think>It is tea.</think>Is it hot?");
    body["logprobs"] = true.into();
    let served = thinking(PLAIN);
    let whole = served.json("/v1/chat/completions", &body);
    body["stream"] = true.into();
    let stream = served.post("/v1/chat/completions", &body);
    let events =
        stream.split_terminator("\n\n").filter_map(|event| serde_json::from_str(&event["data: ".len()..]).ok());
    let logprobs = events.filter_map(|event: Value| event["choices"][0]["logprobs"]["content"].as_array().cloned());
    assert_eq!(Value::from(logprobs.flatten().collect::<Vec<_>>()), whole["choices"][0]["logprobs"]["content"]);
}

#[test]
fn without_reasoning_an_answer_is_its_text() {
    let text = "<think>\nIt is tea.</think>\nIs it hot?\n";
    for (template, format) in [(PLAIN, ReasoningFormat::None), (TAGLESS, ReasoningFormat::Auto)] {
        let served = serve(template, format, TemplateSettings::default());
        assert_eq!(served.message(text), json!({"role": "assistant", "content": text, "refusal": null}));
        assert_eq!(joined(&served.deltas(text, 0), "content"), text);
    }
    let served = serve(PLAIN, ReasoningFormat::Auto, TemplateSettings::default());
    assert_eq!(served.message(text)["reasoning_content"], "It is tea.");
    // Completions of texts have none in any case.
    let body = json!({"prompt": "Hi", "structured_outputs": {"choice": [text]}, "max_tokens": 100});
    assert_eq!(served.json("/v1/completions", &body)["choices"][0]["text"], text);
}

#[test]
fn what_continues_a_message_is_split_within_reasoning_only() {
    let served = thinking(PLAIN);
    let continued = |message: &str| {
        let mut body = saying(" tea.</think> Hot?");
        body["messages"] = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": message}]);
        body["continue_final_message"] = true.into();
        let message = served.json("/v1/chat/completions", &body)["choices"][0]["message"].clone();
        (message["reasoning_content"].clone(), message["content"].clone())
    };
    assert_eq!(continued("<think>It is"), (json!("tea."), json!("Hot?")));
    assert_eq!(continued("It is"), (Value::Null, json!(" tea.</think> Hot?")));
}

#[test]
fn templates_get_the_reasoning_of_messages_and_the_variables_of_the_server() {
    let messages =
        |key: &str| json!([{"role": "assistant", "content": null, key: "tea"}, {"role": "user", "content": "Hi"}]);
    let served = thinking(PLAIN);
    for key in ["reasoning_content", "reasoning"] {
        let prompt = served.prompt(&json!({"messages": messages(key)}));
        assert_eq!(prompt.trim(), "[assistant]<think>tea</think>[user]Hi[assistant]");
    }
    let chat_template_kwargs = r#"{"enable_thinking": false}"#.parse().unwrap();
    let settings = TemplateSettings { chat_template_kwargs, ..TemplateSettings::default() };
    let served = serve(OPENS, ReasoningFormat::Think, settings);
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
    assert!(served.prompt(&body).ends_with("<think>\n\n</think>\n\n"));
    assert_eq!(served.message("Is it hot?")["content"], "Is it hot?");
    body["chat_template_kwargs"] = json!({"enable_thinking": true});
    assert!(served.prompt(&body).ends_with("<think>\n"));
    body.as_object_mut().unwrap().extend(saying("Is it hot?").as_object().unwrap().clone());
    let message = served.json("/v1/chat/completions", &body)["choices"][0]["message"].clone();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Is it hot?"), &Value::Null));
}

#[test]
fn tags_that_answers_cannot_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        TemplateSettings { reasoning_tags: "<|im_start|> <|im_end|>".parse().unwrap(), ..Default::default() };
    let model = model(&chatml_tiny(folder.path()), ReasoningFormat::Auto, settings);
    let error = Server::bind(ServerConfig::new("127.0.0.1", 0), vec![model]).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("reasoning_tags: the tags are special tokens"), "{error}");
}
