//! The reasoning of recorded games in samples.

use spag_game::{EpisodeView, with_own_reasoning};
use spag_io::{ReasoningFormat, ReasoningRule, ReasoningTags, TurnPrompt};

use crate::{Query, Sample};

spag_io::settings! {
    /// How samples have the reasoning of recorded utterances, which is learned with what was said as one completion.
    pub table SampleReasoning {
        /// `think`: before what was said, between tags. `boxed`: before what was said in a box. `none`: left out.
        pub reasoning: ReasoningFormat = ReasoningFormat::Think;
        /// The tags.
        pub reasoning_tags: ReasoningTags;
        /// Whether queries have the player's own earlier reasoning, as its prompts had it.
        pub keep_reasoning: bool;
    }
}

impl SampleReasoning {
    /// That of games which were played with a format; `auto` is `think`, since reasoning between tags has no other trace.
    pub fn new(format: ReasoningFormat, tags: ReasoningTags, keep_reasoning: bool) -> Self {
        Self { reasoning: format, reasoning_tags: tags, keep_reasoning }
    }

    /// The sample of the utterance at an index, which answered `prompt` with `said`, its text as it is learned.
    pub(crate) fn sample(&self, prompt: TurnPrompt, episode: &EpisodeView<'_>, at: usize, said: &str) -> Sample {
        let rule = self.reasoning.rule(self.reasoning_tags.clone());
        let utterance = &episode.history[at];
        let prompt = match self.keep_reasoning {
            true => with_own_reasoning(prompt, utterance.seat, &episode.history[..at], &rule),
            false => prompt,
        };
        let (query, reasoning) = (Query::from(prompt), utterance.reasoning.as_deref());
        match (&query, &rule) {
            (Query::Messages(_), ReasoningRule::Think(_)) => {
                Sample { reasoning: reasoning.map(str::to_owned), ..Sample::new(query, said) }
            }
            // A completion in a box is one with reasoning or without.
            (_, ReasoningRule::Think(_)) | (_, ReasoningRule::Boxed) => Sample::new(query, rule.join(reasoning, said)),
            (_, ReasoningRule::None) => Sample::new(query, said),
        }
    }
}
