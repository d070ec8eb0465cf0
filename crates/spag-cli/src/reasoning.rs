//! The flags of programs that make samples of games with reasoning.

use clap::Args;
use spag_io::{ReasoningFormat, ReasoningTags};
use spag_rewards::SampleReasoning;

use crate::flags;

/// How samples have the reasoning of recorded utterances.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct SampleReasoningArgs {
    /// Reasoning of utterances that have some: think (learned before what was said, between tags), boxed (before what was said
    /// in a box) or none (left out).
    #[arg(long, value_name = "FORMAT", default_value_t = SampleReasoning::default().reasoning, help_heading = "Reasoning")]
    reasoning: ReasoningFormat,
    /// The tags around reasoning, with a blank between them.
    #[arg(long, value_name = "TAGS", default_value_t = ReasoningTags::default(), help_heading = "Reasoning")]
    reasoning_tags: ReasoningTags,
    /// Keep a player's own earlier reasoning in the queries, as games with --keep_reasoning had it in the prompts: True or False.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value = "False", default_missing_value = "True",
        value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Reasoning")]
    keep_reasoning: bool,
}

impl SampleReasoningArgs {
    /// The settings.
    pub fn settings(&self) -> SampleReasoning {
        SampleReasoning::new(self.reasoning, self.reasoning_tags.clone(), self.keep_reasoning)
    }
}
