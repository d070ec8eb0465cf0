//! Reasoning in answers to chats.

use spag_io::{PromptEnd, ReasoningRule, ReasoningStream, SplitCompletion};

/// What splits the answers to a conversation in reasoning and content.
#[derive(Debug)]
pub(crate) struct Splitting {
    rule: ReasoningRule,
    prompt: PromptEnd,
}

impl Splitting {
    /// Of answers to a prompt.
    pub(super) fn of_answer(rule: &ReasoningRule, prompt: &str) -> Self {
        let prompt = match rule {
            ReasoningRule::Think(tags) => tags.end_of_prompt(prompt),
            ReasoningRule::None | ReasoningRule::Boxed => PromptEnd::Plain,
        };
        Self { rule: rule.clone(), prompt }
    }

    /// Of texts that continue a message. They have reasoning only if the message ends within it. Others go on with what is said and
    /// keep their blanks.
    pub(super) fn of_continued(rule: &ReasoningRule, message: &str) -> Self {
        let is_opened = match rule {
            ReasoningRule::Think(tags) => {
                message.rsplit_once(tags.open()).is_some_and(|(_, reasoning)| !reasoning.contains(tags.close()))
            }
            ReasoningRule::None | ReasoningRule::Boxed => false,
        };
        match is_opened {
            true => Self { rule: rule.clone(), prompt: PromptEnd::Opened },
            false => Self { rule: ReasoningRule::None, prompt: PromptEnd::Plain },
        }
    }

    /// The parts of a whole answer.
    pub(crate) fn split(&self, text: &str) -> SplitCompletion {
        self.rule.split(text, self.prompt)
    }

    /// Splits an answer while it grows.
    pub(crate) fn stream(&self) -> ReasoningStream {
        ReasoningStream::new(&self.rule, self.prompt)
    }
}

#[cfg(test)]
mod tests {
    use spag_io::ReasoningTags;

    use super::*;

    #[test]
    fn texts_that_continue_what_is_said_have_no_reasoning() {
        let rule = ReasoningRule::Think(ReasoningTags::default());
        for (message, reasoning, utterance) in [
            ("<think>\nIt is", Some("tea."), Some("Hot?")),
            ("<think>a</think><think>", Some("tea."), Some("Hot?")),
            ("<think>a</think> It is", None, Some(" tea.</think> Hot?")),
            ("It is", None, Some(" tea.</think> Hot?")),
        ] {
            let split = Splitting::of_continued(&rule, message).split(" tea.</think> Hot?");
            assert_eq!((split.reasoning.as_deref(), split.utterance.as_deref()), (reasoning, utterance), "{message}");
        }
    }
}
