//! Settings of templates and of reasoning, which programs share.

use std::ops::RangeInclusive;

use spag_io::{PromptFormat, ReasoningFormat, ReasoningRule, ReasoningTags};

use crate::error::{Error, Result};
use crate::prompt_encoder::PromptEncoder;
use crate::template_kwargs::TemplateKwargs;

/// Tokens of reasoning.
const REASONING_TOKENS: RangeInclusive<usize> = 1..=1 << 20;

spag_io::settings! {
    /// What chat templates are rendered with, and what models write around reasoning.
    #[derive(clap::Args)]
    pub flags TemplateSettings {
        /// Variables for the model's chat template, as a JSON object: {"enable_thinking": false}.
        #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true, help_heading = "Prompts")]
        #[serde(skip_serializing_if = "TemplateKwargs::is_empty")]
        pub chat_template_kwargs: TemplateKwargs;
        /// The tags around reasoning, with a blank between them.
        #[arg(value_name = "TAGS", default_value_t = ReasoningTags::default(), help_heading = "Prompts")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub reasoning_tags: ReasoningTags;
    }

    /// How players think before they speak.
    #[derive(clap::Args)]
    pub flags ReasoningSettings {
        /// What of a completion is private reasoning, which is not said: none, think (what stands between tags at its
        /// beginning), boxed (all but the last \boxed{…}) or auto (think if the model's chat template or vocabulary has the
        /// tags) [default: auto with prompts as chats, else none].
        #[arg(value_name = "FORMAT", help_heading = "Reasoning")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reasoning: Option<ReasoningFormat>;
        /// Maximum number of tokens of reasoning, beside those of what is said. Then the closing tag is written for the
        /// model [default: 1024, at most a quarter of the model's positions].
        #[arg(value_name = "N", help_heading = "Reasoning")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_reasoning_tokens: Option<usize> [REASONING_TOKENS];
        /// Keep a player's own earlier reasoning in its later prompts: True or False. That of others is in none.
        #[arg(value_name = "BOOL", num_args = 0..=1, default_value = "False", default_missing_value = "True",
            value_parser = spag_io::truth, action = clap::ArgAction::Set, help_heading = "Reasoning")]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub keep_reasoning: bool;
    }
}

impl ReasoningSettings {
    /// Tokens of reasoning without a setting.
    const TOKENS: usize = 1024;
    /// Tokens of a closing tag with its line breaks, at most: a bound for plans.
    const CLOSING: usize = 16;

    /// The format for prompts of a kind.
    pub fn format(&self, prompts: PromptFormat) -> ReasoningFormat {
        self.reasoning.unwrap_or_else(|| ReasoningFormat::default_of(prompts))
    }

    /// Tokens of reasoning of a model with this many positions.
    pub fn tokens(&self, positions: usize) -> usize {
        self.max_reasoning_tokens.unwrap_or_else(|| Self::TOKENS.min(positions / 4).max(1))
    }

    /// Tokens of a completion that says `said` tokens, at most, by a model with this many positions that may think.
    pub fn completion_tokens(&self, prompts: PromptFormat, said: usize, positions: usize) -> usize {
        match self.format(prompts) {
            ReasoningFormat::None => said,
            _ => said.saturating_add(self.tokens(positions).saturating_add(Self::CLOSING).max(said)),
        }
    }

    /// Checks the settings for prompts of a kind.
    ///
    /// # Errors
    /// Boxes with plain prompts, or settings of reasoning without reasoning.
    pub fn check(&self, prompts: PromptFormat) -> Result<()> {
        match self.format(prompts) {
            ReasoningFormat::Boxed if prompts.is_plain() => Err(Error::Reasoning {
                setting: "reasoning",
                problem: "boxed asks for an answer in a box, which plain prompts do not; use the prompt format chat",
            }),
            ReasoningFormat::None if self.max_reasoning_tokens.is_some() => Err(Error::Reasoning {
                setting: "max_reasoning_tokens",
                problem: "there is no reasoning; set reasoning to think",
            }),
            ReasoningFormat::None if self.keep_reasoning => Err(Error::Reasoning {
                setting: "keep_reasoning",
                problem: "there is no reasoning to keep; set reasoning to think",
            }),
            _ => Ok(()),
        }
    }

    /// What records of games say of the settings, where they are not the defaults.
    pub fn describe(&self) -> String {
        let reasoning = self.reasoning.map(|format| format!("; reasoning={format}"));
        let tokens = self.max_reasoning_tokens.map(|tokens| format!("; max_reasoning_tokens={tokens}"));
        let kept = self.keep_reasoning.then(|| "; keep_reasoning=true".to_owned());
        [reasoning, tokens, kept].into_iter().flatten().collect()
    }
}

impl TemplateSettings {
    /// What records of games say of the settings.
    pub fn describe(&self) -> String {
        let Self { chat_template_kwargs: kwargs, reasoning_tags: tags } = self;
        let kwargs = (!kwargs.is_empty()).then(|| format!("; chat_template_kwargs={kwargs}"));
        let tags = (*tags != ReasoningTags::default()).then(|| format!("; reasoning_tags={tags}"));
        [kwargs, tags].into_iter().flatten().collect()
    }
}

impl PromptEncoder {
    /// The same encoder with the settings of templates, for completions that may have reasoning between tags.
    pub fn with_template(self, template: &TemplateSettings) -> Self {
        self.with_kwargs(template.chat_template_kwargs.clone())
            .with_rule(ReasoningRule::Think(template.reasoning_tags.clone()))
    }

    /// The same encoder with these settings, for prompts of a kind.
    ///
    /// # Errors
    /// As [`ReasoningSettings::check`], or a chat template that cannot be used.
    pub fn with_settings(
        self,
        template: &TemplateSettings,
        reasoning: &ReasoningSettings,
        prompts: PromptFormat,
    ) -> Result<Self> {
        reasoning.check(prompts)?;
        self.with_kwargs(template.chat_template_kwargs.clone())
            .with_reasoning(reasoning.format(prompts), template.reasoning_tags.clone())
    }
}
