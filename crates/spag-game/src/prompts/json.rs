//! Prompts as they stand in a JSON file.

use rand::Rng;

use super::PromptSet;
use super::render::{self, Scene};
use super::wordings::Wordings;
use crate::episode::Role;
use crate::view::{EpisodeView, escaped};

/// The wordings of a [`PromptSet`] in JSON's form: prompts come out ready to stand between quotation marks.
#[derive(Clone, Debug)]
pub struct JsonPrompts(Wordings);

impl JsonPrompts {
    /// The same wordings.
    pub fn new(prompts: &PromptSet) -> Self {
        Self(Wordings::new(&prompts.file, escaped))
    }

    /// Appends what [`PromptSet::training_query`] gives for the history before the utterance `at`, as JSON writes it.
    pub fn append_training_query(&self, to: &mut String, episode: &EpisodeView<'_>, at: usize, rng: &mut impl Rng) {
        let history = episode.history.iter().take(at).map(|line| (line.role, line.content.json()));
        let target_word = episode.target_word.json();
        let scene = Scene { history, role: Role::at(at), target_word, max_turns: episode.max_turns };
        render::training(&self.0, &scene, rng, to);
    }
}
