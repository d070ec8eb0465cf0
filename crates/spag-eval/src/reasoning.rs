//! What a generated answer begins with before it says something.

use std::path::Path;

use spag_chat::{PromptEncoder, ReasoningSettings, TemplateSettings};
use spag_io::{PromptEnd, PromptFormat, ReasoningFormat, ReasoningRule};
use spag_model::checkpoint::{load_config, load_tokenizer};
use spag_model::generate::ReasoningBudget;

use crate::error::Result;

/// How reasoning is told from a generated answer, and how long it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskReasoning {
    /// What splits completions.
    pub(crate) rule: ReasoningRule,
    /// Of reasoning between tags.
    pub(crate) budget: Option<ReasoningBudget>,
}

impl AskReasoning {
    /// The reasoning of the model at `model`, a folder or a GGUF file, after contexts of a kind.
    ///
    /// # Errors
    /// Settings that do not fit together, a model that cannot be read, or a chat template that cannot be used.
    pub fn of(
        model: &Path,
        template: &TemplateSettings,
        settings: &ReasoningSettings,
        contexts: PromptFormat,
    ) -> Result<Self> {
        settings.check(contexts)?;
        if settings.format(contexts) == ReasoningFormat::None {
            return Ok(Self::default());
        }
        let encoder = PromptEncoder::new(load_tokenizer(model)?).with_settings(template, settings, contexts)?;
        let max_tokens = settings.tokens(load_config(model)?.architecture.max_position_embeddings);
        let budget = encoder.reasoning_budget(contexts, PromptEnd::Plain, max_tokens)?;
        Ok(Self { rule: encoder.reasoning().clone(), budget })
    }

    /// Whether a context ends in the tag that opens reasoning.
    pub(crate) fn end_of(&self, context: &str) -> PromptEnd {
        self.budget.as_ref().map_or(PromptEnd::Plain, |budget| budget.tags.end_of_prompt(context))
    }

    /// What a record says of it; `None` without reasoning.
    pub(crate) fn describe(&self) -> Option<String> {
        match (&self.rule, &self.budget) {
            (ReasoningRule::None, _) => None,
            (ReasoningRule::Think(tags), Some(budget)) => Some(format!("think {tags}, {} tokens", budget.max_tokens)),
            (ReasoningRule::Think(tags), None) => Some(format!("think {tags}")),
            (ReasoningRule::Boxed, _) => Some("boxed".to_owned()),
        }
    }
}
