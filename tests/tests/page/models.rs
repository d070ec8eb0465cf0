//! Models with a script: checkpoints whose weights were made by hand so that they always say the same.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use spag_model::checkpoint::load_tokenizer;
use spag_tests::{Serve, change_tensor, copy_folder, json, root};
use tempfile::TempDir;

/// What ends the prompts of the small world, as a token.
const END_OF_PROMPT: &str = ":";

/// A template whose answers begin after [`END_OF_PROMPT`].
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}{{ eos_token }}\
    {% endfor %}{% if add_generation_prompt %} Response:{% endif %}";

/// How a script ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// With EOS.
    Ends,
    /// It begins again, until the longest utterance is reached.
    Repeats,
}

/// Makes a model in `folder` that says `text` whatever it is asked.
///
/// All layers add nothing, so the logits depend on the last token alone: its embedding is a row of random signs, and the
/// row of its successor in the output head is the same. No token of the text may occur twice.
pub(crate) fn scripted(folder: &Path, text: &str, after: After) -> PathBuf {
    scripted_after(folder, END_OF_PROMPT, text, after)
}

/// As [`scripted`], after prompts that end in `begin`.
pub(crate) fn scripted_after(folder: &Path, begin: &str, text: &str, after: After) -> PathBuf {
    copy_folder(root().join("data/tiny-llama"), folder);
    let tokenizer = load_tokenizer(folder).unwrap();
    let said = tokenizer.encode_text(text).unwrap();
    assert_eq!(said.iter().collect::<HashSet<_>>().len(), said.len(), "{text:?} has a token twice: {said:?}");
    let begin = *tokenizer.encode_text(begin).unwrap().last().unwrap();
    let mut chain = vec![begin];
    chain.extend(&said);
    chain.push(if after == After::Ends { tokenizer.eos() } else { said[0] });
    let signs =
        |token: usize, at: usize| if spag_game::game_seed(token as u64, at).is_multiple_of(2) { 1.0 } else { -1.0 };
    change_tensor(folder, "model.embed_tokens.weight", |numbers, shape| {
        numbers.iter_mut().enumerate().for_each(|(at, number)| *number = signs(at / shape[1], at % shape[1]));
    });
    change_tensor(folder, "lm_head.weight", |numbers, shape| {
        numbers.fill(0.0);
        for pair in chain.windows(2) {
            let row = &mut numbers[pair[1] as usize * shape[1]..][..shape[1]];
            row.iter_mut().enumerate().for_each(|(at, number)| *number += signs(pair[0] as usize, at));
        }
    });
    change_tensor(folder, "model.norm.weight", |numbers, _| numbers.fill(1.0));
    let layers = json(folder.join("config.json"))["num_hidden_layers"].as_u64().unwrap();
    for layer in 0..layers {
        for part in ["self_attn.o_proj", "mlp.down_proj"] {
            change_tensor(folder, &format!("model.layers.{layer}.{part}.weight"), |numbers, _| numbers.fill(0.0));
        }
    }
    folder.to_owned()
}

/// A folder with scripted models and a list of one word, and the arguments of a server with them.
pub(crate) struct Cast {
    pub(crate) folder: TempDir,
    arguments: Vec<String>,
}

impl Cast {
    /// Models by name, with what they say. The word is `tiger`.
    pub(crate) fn new(models: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let words = folder.path().join("words.txt");
        std::fs::write(&words, "tiger\n").unwrap();
        let prompts = root().join("configs/tiny-prompts.json");
        let mut arguments =
            ["--words", words.to_str().unwrap(), "--prompts", prompts.to_str().unwrap()].map(str::to_owned).to_vec();
        for (name, text) in models {
            let model = scripted(&folder.path().join(name), text, After::Ends);
            arguments.extend(["--model".to_owned(), format!("{name}={}", model.display())]);
        }
        Self { folder, arguments }
    }

    /// Gives all models a chat template that ends as plain prompts do, and plays in chats.
    pub(crate) fn in_chats(self) -> Self {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let folder = entry.unwrap().path();
            if folder.is_dir() {
                std::fs::write(folder.join("chat_template.jinja"), CHAT_TEMPLATE).unwrap();
            }
        }
        self.with(&["--prompt_format", "chat"])
    }

    /// Adds arguments.
    pub(crate) fn with(mut self, more: &[&str]) -> Self {
        self.arguments.extend(more.iter().map(|one| (*one).to_owned()));
        self
    }

    pub(crate) fn serve(&self) -> Serve {
        self.serve_on(0)
    }

    pub(crate) fn serve_on(&self, port: u16) -> Serve {
        Serve::start_on(port, &self.arguments)
    }
}
