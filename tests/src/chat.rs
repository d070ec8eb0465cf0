//! Models with chat templates, and short wordings for them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{copy_folder, fixture, json as read_json, root};

/// A copy of a family's model in `folder`, with a template of `chat_templates`.
pub fn chat_model(folder: &Path, family: &str, template: &str) -> PathBuf {
    copy_folder(fixture("families").join(family), folder);
    let source = fs::read_to_string(fixture("chat_templates").join(format!("{template}.jinja"))).unwrap();
    fs::write(folder.join("chat_template.jinja"), source.strip_suffix('\n').unwrap()).unwrap();
    folder.to_owned()
}

/// The wordings of `configs/tiny-prompts.json` with short rules and a short chat, in `folder`. `change` changes them.
pub fn chat_prompts(folder: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut file = read_json(root().join("configs/tiny-prompts.json"));
    file["rules"] = json!(["Five turns.\n\n"]);
    file["chat"] = json!({
        "instruction": {"attacker": "Attack: lead to `{target_word}`.", "defender": "Defend. Say what it is."},
        "opening": "Begin.",
    });
    change(&mut file);
    let path = folder.join("prompts.json");
    fs::write(&path, file.to_string()).unwrap();
    path
}

/// A copy of `data/tiny-llama` in `folder` with the special tokens of ChatML in place of `#` and `$`, and a template.
pub fn chatml_tiny(folder: &Path) -> PathBuf {
    copy_folder(root().join("data/tiny-llama"), folder);
    let path = folder.join("tokenizer.json");
    let mut tokenizer = read_json(&path);
    for (old, new) in [("#", "<|im_start|>"), ("$", "<|im_end|>")] {
        let id = tokenizer["model"]["vocab"].as_object_mut().unwrap().remove(old).unwrap();
        let flags =
            json!({"single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
        let mut token = json!({"id": id, "content": new});
        token.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        tokenizer["model"]["vocab"][new] = id;
        tokenizer["added_tokens"].as_array_mut().unwrap().push(token);
    }
    fs::write(path, tokenizer.to_string()).unwrap();
    let template = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}\
                    {% if add_generation_prompt %}<|im_start|>assistant{% endif %}";
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    folder.to_owned()
}
