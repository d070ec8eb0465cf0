//! The text of a turn while a model generates it, split in reasoning and what is said.

use spag_io::{ReasoningRule, ReasoningScan, ReasoningStream, SplitDelta, Stand};
use spag_model::tokenizer::Detokenizer;
use spag_model::{GenerationConfig, Tokenizer};
use spag_selfplay::ReasoningStart;

/// The preview of an utterance. It is the utterance but for blanks at the ends, and has no reasoning in what is said.
pub(super) struct Preview {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    /// Special tokens that are tags of reasoning, which decoding skips.
    tags: Vec<(u32, String)>,
    /// Until a tag is found: a text that nothing opened is reasoning if a closing tag follows.
    scan: Option<ReasoningScan>,
    /// Text that is held back until then.
    held: String,
    stream: ReasoningStream,
}

impl Preview {
    /// The preview of a completion of the tokens `prompt`.
    pub(super) fn new(
        (tokenizer, prompt): (&Tokenizer, &[u32]),
        config: &GenerationConfig,
        (rule, start): (&ReasoningRule, ReasoningStart),
    ) -> Self {
        let is_tag = |text: &str| {
            config.reasoning.as_ref().is_some_and(|budget| [budget.tags.open(), budget.tags.close()].contains(&text))
        };
        let tags = tokenizer.special_tokens().filter(|(_, text)| is_tag(text));
        let scan = match (rule, start) {
            (ReasoningRule::Think(tags), ReasoningStart::After(end)) => Some(ReasoningScan::new(tags.clone(), end)),
            _ => None,
        };
        Self {
            tags: tags.map(|(id, text)| (id, text.to_owned())).collect(),
            detokenizer: Detokenizer::continuing(tokenizer, prompt),
            tokenizer: tokenizer.clone(),
            scan,
            held: String::new(),
            stream: ReasoningStream::new(rule, start.prompt_end()),
        }
    }

    /// What a token makes certain.
    pub(super) fn push(&mut self, token: u32) -> SplitDelta {
        match self.tags.iter().find(|(tag, _)| *tag == token) {
            Some((_, text)) => self.held.push_str(text),
            // Only the preview lacks a token that cannot be decoded.
            None => self.held.push_str(&self.detokenizer.push(&self.tokenizer, token).unwrap_or_default()),
        }
        if let Some(scan) = &mut self.scan
            && matches!(scan.push(&self.held), Stand::Begun | Stand::Unopened)
        {
            return SplitDelta::default();
        }
        self.scan = None;
        self.stream.push(&std::mem::take(&mut self.held))
    }

    /// What was held back until the end.
    pub(super) fn finish(&mut self) -> SplitDelta {
        let SplitDelta { reasoning, utterance } = self.stream.push(&std::mem::take(&mut self.held));
        let rest = self.stream.finish();
        SplitDelta { reasoning: reasoning + &rest.reasoning, utterance: utterance + &rest.utterance }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use spag_io::{PromptEnd, ReasoningTags};
    use spag_model::checkpoint::load_tokenizer;

    use super::*;

    /// The pieces of a completion, of each part: those that came meanwhile, and the rest.
    fn pieces(rule: &ReasoningRule, start: ReasoningStart, text: &str) -> [(String, String); 2] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tiny-llama");
        let tokenizer = load_tokenizer(folder).unwrap();
        let mut preview = Preview::new((&tokenizer, &[]), &GenerationConfig::default(), (rule, start));
        let mut meanwhile = (String::new(), String::new());
        for token in tokenizer.encode_text(text).unwrap() {
            let SplitDelta { reasoning, utterance } = preview.push(token);
            meanwhile.0 += &reasoning;
            meanwhile.1 += &utterance;
        }
        let SplitDelta { reasoning, utterance } = preview.finish();
        [meanwhile, (reasoning, utterance)]
    }

    #[test]
    fn reasoning_is_never_shown_as_said() {
        let think = ReasoningRule::Think(ReasoningTags::new("(", ")").unwrap());
        let part = |reasoning: &str, said: &str| (reasoning.to_owned(), said.to_owned());
        let (plain, opened) = (ReasoningStart::After(PromptEnd::Plain), ReasoningStart::After(PromptEnd::Opened));
        let cases = [
            (&think, plain, "(It is a cat.) What is it", [part("It is a cat.", "What is it"), part("", "")]),
            (&think, opened, "It is a cat.) What is it", [part("It is a cat.", "What is it"), part("", "")]),
            // Nothing opened it.
            (&think, plain, "It is a cat.) What is it", [part("It is a cat.", "What is it"), part("", "")]),
            (&think, plain, "What is it", [part("", ""), part("", "What is it")]),
            (&think, plain, "(What is it", [part("What is it", ""), part("", "")]),
            (&think, ReasoningStart::Never, "What is it", [part("", "What is it"), part("", "")]),
            (&ReasoningRule::None, ReasoningStart::Never, "What is it", [part("", "What is it"), part("", "")]),
        ];
        for (rule, start, text, expected) in cases {
            let found = pieces(rule, start, text).map(|(reasoning, said)| part(reasoning.trim(), said.trim()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
