//! Reasoning in chats: where templates write it, and a player's own in its later prompts.

use spag_chat::{PromptEncoder, ReasoningForm, TemplateKwargs};
use spag_io::{
    ChatMessage, ChatRole, PromptEnd, PromptFormat, PromptText, ReasoningFormat, ReasoningRule, ReasoningTags,
    TurnPrompt,
};
use spag_model::Tokenizer;
use spag_model::tokenizer::SpecialIds;
use spag_tests::chat_model;

/// One that opens reasoning in the generation prompt, and drops it from the history.
const OPENS: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}{% endfor %}\
                     {% if add_generation_prompt %}<|assistant|><think>\n{% endif %}";

fn encoder(template: Option<&str>) -> PromptEncoder {
    let folder = tempfile::tempdir().unwrap();
    let model = chat_model(folder.path(), "qwen3", "qwen3");
    if let Some(template) = template {
        std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    }
    PromptEncoder::new(Tokenizer::from_dir(model, SpecialIds::default()).unwrap())
}

fn auto(encoder: PromptEncoder) -> PromptEncoder {
    encoder.with_reasoning(ReasoningFormat::Auto, ReasoningTags::default()).unwrap()
}

fn chat(messages: &[(ChatRole, &str, Option<&str>)]) -> TurnPrompt {
    let message = |(role, content, reasoning): &(ChatRole, &str, Option<&str>)| ChatMessage {
        reasoning: reasoning.map(str::to_owned),
        ..ChatMessage::new(*role, PromptText::all_said(*content))
    };
    TurnPrompt::Chat(messages.iter().map(message).collect())
}

const ASKED: TurnPrompt = TurnPrompt::Chat(Vec::new());

#[test]
fn templates_with_the_tags_think_and_others_do_not() {
    let rule = |template| auto(encoder(template)).reasoning().clone();
    let think = ReasoningRule::Think(ReasoningTags::default());
    assert_eq!((rule(None), rule(Some(OPENS))), (think.clone(), think));
    assert_eq!(rule(Some("{{ messages[0].content }}")), ReasoningRule::None);
    let others = encoder(None).with_reasoning(ReasoningFormat::Auto, "[THINK] [/THINK]".parse().unwrap()).unwrap();
    assert_eq!(*others.reasoning(), ReasoningRule::None);
}

#[test]
fn forms_are_those_that_templates_write() {
    let form = |template| auto(encoder(template)).reasoning_form(PromptFormat::Chat).unwrap().unwrap();
    let lines = ReasoningForm { opening: "<think>\n".into(), closing: "\n</think>\n\n".into() };
    assert_eq!((form(None), form(Some(OPENS))), (lines.clone(), lines));
    let compact = "{% for m in messages %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}\
                   {{ m.content }}{% endfor %}";
    assert_eq!(form(Some(compact)), ReasoningForm { opening: "<think>".into(), closing: "</think>".into() });
    assert_eq!(
        auto(encoder(None)).reasoning_form(PromptFormat::Plain).unwrap(),
        Some(ReasoningForm::plain(&ReasoningTags::default()))
    );
}

/// What a model of Qwen3 is given to learn is what its own template writes.
#[test]
fn completions_are_those_of_the_template() {
    let encoder = auto(encoder(None));
    let asked = chat(&[(ChatRole::User, "Well?", None)]);
    let text = encoder.text(&asked).unwrap();
    let form = encoder.reasoning_form(PromptFormat::Chat).unwrap().unwrap();
    let completion = form.completion(encoder.end_of_prompt(&text), Some("Hm."), "Tea.");
    let messages = serde_json::json!([
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "Tea.", "reasoning_content": "Hm."},
    ]);
    let whole = encoder.template().unwrap().render(messages.as_array().unwrap(), &Default::default()).unwrap();
    assert_eq!(format!("{}{}<|im_end|>\n", text.text(), completion.text()), whole);
    // Tags are the operator's, the rest is said.
    let said: Vec<&str> = completion.said().iter().map(|range| &completion.text()[range.clone()]).collect();
    assert_eq!(said, ["Hm.", "Tea."]);
}

#[test]
fn prompts_that_open_reasoning_are_noticed_and_variables_close_it() {
    let opens = auto(encoder(Some(OPENS)));
    let asked = chat(&[(ChatRole::User, "Well?", None)]);
    assert_eq!(opens.end_of_prompt(&opens.text(&asked).unwrap()), PromptEnd::Opened);
    let form = opens.reasoning_form(PromptFormat::Chat).unwrap().unwrap();
    assert_eq!(form.completion(PromptEnd::Opened, Some("Hm."), "Tea.").text(), "Hm.\n</think>\n\nTea.");
    assert_eq!(form.completion(PromptEnd::Opened, None, "Tea.").text(), "\n</think>\n\nTea.");
    let qwen = encoder(None);
    assert_eq!(qwen.end_of_prompt(&qwen.text(&asked).unwrap()), PromptEnd::Plain);
    let kwargs: TemplateKwargs = r#"{"enable_thinking": false}"#.parse().unwrap();
    let silent = auto(qwen.with_kwargs(kwargs));
    assert!(silent.text(&asked).unwrap().text().ends_with("<think>\n\n</think>\n\n"));
}

#[test]
fn own_reasoning_is_where_the_model_wrote_it_even_if_the_template_drops_it() {
    for (template, open) in [(Some(OPENS), "<|assistant|>"), (None, "<|im_start|>assistant\n")] {
        let encoder = auto(encoder(template));
        let text = |reasoning| {
            let played = chat(&[
                (ChatRole::User, "Well?", None),
                (ChatRole::Assistant, "Tea?", reasoning),
                (ChatRole::User, "No.", None),
            ]);
            encoder.text(&played).unwrap()
        };
        let kept = text(Some("Hm </think>"));
        assert!(kept.text().contains(&format!("{open}<think>\nHm </think>\n</think>\n\nTea?")), "{}", kept.text());
        let dropped = text(None);
        assert!(
            !dropped.text().contains("Hm") && dropped.text().contains(&format!("{open}Tea?")),
            "{}",
            dropped.text()
        );
    }
}

#[test]
fn a_template_that_needs_a_variable_is_refused_by_its_name() {
    let needs = "{{ style.name }}{{ messages[0].content }}";
    let error = encoder(Some(needs)).template().err().unwrap().to_string();
    assert!(error.contains("style") && error.contains("chat_template_kwargs"), "{error}");
    let raises = "{% if not tone is defined %}{{ raise_exception('set tone') }}{% endif %}x";
    let error = encoder(Some(raises)).template().err().unwrap().to_string();
    assert!(error.contains("set tone"), "{error}");
    let given = encoder(Some(needs)).with_kwargs(r#"{"style": {"name": "short"}}"#.parse().unwrap());
    assert!(given.template().is_ok() && given.encode(&ASKED).is_err());
}

#[test]
fn variables_are_an_object_without_those_of_the_conversation() {
    for (text, why) in [("[]", "no JSON object"), ("x", "no JSON object"), (r#"{"tools": []}"#, "tools cannot be set")]
    {
        let error = text.parse::<TemplateKwargs>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
        assert!(serde_json::from_value::<TemplateKwargs>(text.into()).is_err());
    }
    let table: TemplateKwargs = serde_json::from_str(r#"{"a": 1}"#).unwrap();
    assert_eq!(table, r#"{"a": 1}"#.parse().unwrap());
}
