//! Completions that are split while they are generated.

use super::{PromptEnd, ReasoningRule, ReasoningScan, ReasoningTags, SplitCompletion, Stand};

/// What a piece of a completion adds to its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitDelta {
    /// Reasoning.
    pub reasoning: String,
    /// What is said.
    pub utterance: String,
}

/// Splits a growing completion. Text is held back while it may be the beginning of a tag or blanks at the end of a part, and with
/// boxes until the end.
///
/// All deltas together are what [`ReasoningRule::split`] makes of the whole text, with one exception: a text that nothing opened is
/// sent as an utterance. If a closing tag follows, what was sent stays so, and what follows the tag is appended to it.
///
/// ```
/// use spag_io::{PromptEnd, ReasoningRule, ReasoningStream, ReasoningTags};
///
/// let rule = ReasoningRule::Think(ReasoningTags::default());
/// let mut stream = ReasoningStream::new(&rule, PromptEnd::Plain);
/// let deltas = ["<think>\nIt is", " tea.\n</th", "ink>\n\nIs it", " hot?\n"].map(|piece| stream.push(piece));
/// assert_eq!(deltas.each_ref().map(|delta| delta.reasoning.as_str()), ["It is", " tea.", "", ""]);
/// assert_eq!(deltas.each_ref().map(|delta| delta.utterance.as_str()), ["", "", "Is it", " hot?"]);
/// assert_eq!(stream.finish(), Default::default());
/// ```
#[derive(Clone, Debug)]
pub struct ReasoningStream(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Verbatim,
    /// The text so far.
    Boxed(String),
    Tagged(Tagged),
}

impl ReasoningStream {
    /// The stream of an empty completion of a prompt that ends so.
    pub fn new(rule: &ReasoningRule, prompt: PromptEnd) -> Self {
        Self(match rule {
            ReasoningRule::None => Kind::Verbatim,
            ReasoningRule::Boxed => Kind::Boxed(String::new()),
            ReasoningRule::Think(tags) => Kind::Tagged(Tagged::new(tags, prompt)),
        })
    }

    /// What a piece of text adds.
    pub fn push(&mut self, more: &str) -> SplitDelta {
        match &mut self.0 {
            Kind::Verbatim => said(more.to_owned()),
            Kind::Boxed(text) => {
                text.push_str(more);
                SplitDelta::default()
            }
            Kind::Tagged(tagged) => tagged.push(more),
        }
    }

    /// What was held back, at the end of the completion.
    pub fn finish(&mut self) -> SplitDelta {
        match &mut self.0 {
            Kind::Verbatim => SplitDelta::default(),
            Kind::Boxed(text) => {
                let text = std::mem::take(text);
                let SplitCompletion { reasoning, utterance } = ReasoningRule::Boxed.split(&text, PromptEnd::Plain);
                SplitDelta { reasoning: reasoning.unwrap_or_default(), utterance: utterance.unwrap_or_default() }
            }
            Kind::Tagged(tagged) => tagged.finish(),
        }
    }
}

fn said(utterance: String) -> SplitDelta {
    SplitDelta { utterance, ..SplitDelta::default() }
}

fn thought(reasoning: String) -> SplitDelta {
    SplitDelta { reasoning, ..SplitDelta::default() }
}

/// The stream of a completion with tags.
#[derive(Clone, Debug)]
struct Tagged {
    tags: ReasoningTags,
    prompt: PromptEnd,
    scan: ReasoningScan,
    stand: Stand,
    text: String,
    /// Where the current part begins.
    start: usize,
    /// Where what was not sent begins.
    at: usize,
}

impl Tagged {
    fn new(tags: &ReasoningTags, prompt: PromptEnd) -> Self {
        let scan = ReasoningScan::new(tags.clone(), prompt);
        Self { tags: tags.clone(), prompt, scan, stand: Stand::Begun, text: String::new(), start: 0, at: 0 }
    }

    fn push(&mut self, more: &str) -> SplitDelta {
        self.text.push_str(more);
        if matches!(self.stand, Stand::Closed(_)) {
            return said(self.take(self.text.len()));
        }
        let before = std::mem::replace(&mut self.stand, self.scan.push(&self.text));
        if before == Stand::Begun
            && let Some(rest) = self.text.trim_start().strip_prefix(self.tags.open())
        {
            self.begin(self.text.len() - rest.len());
        }
        match self.stand {
            Stand::Begun => SplitDelta::default(),
            Stand::Reasoning => thought(self.take(self.text.len() - self.begun_tag())),
            Stand::Unopened => said(self.take(self.text.len() - self.begun_tag())),
            Stand::Closed(end) => {
                let tag = end - self.tags.close().len();
                let was_said = before == Stand::Unopened && self.at > self.start;
                let mut delta = SplitDelta::default();
                if was_said {
                    self.text.replace_range(tag..end, "");
                } else {
                    delta.reasoning = self.take(tag);
                    self.begin(end);
                }
                delta.utterance = self.take(self.text.len());
                delta
            }
        }
    }

    fn finish(&mut self) -> SplitDelta {
        let rest = self.take(self.text.len());
        match (self.stand, self.prompt) {
            (Stand::Reasoning, _) | (Stand::Begun, PromptEnd::Opened) => thought(rest),
            (Stand::Begun, PromptEnd::Plain) | (Stand::Unopened | Stand::Closed(_), _) => said(rest),
        }
    }

    /// Begins a part.
    fn begin(&mut self, at: usize) {
        (self.start, self.at) = (at, at);
    }

    /// What of the text before `end` was not sent, without blanks at the beginning of the part and at the end.
    fn take(&mut self, end: usize) -> String {
        if self.at == self.start {
            let rest = &self.text[self.at..end];
            self.begin(self.at + rest.len() - rest.trim_start().len());
        }
        let piece = self.text[self.at..end].trim_end();
        self.at += piece.len();
        piece.to_owned()
    }

    /// Bytes at the end of the text that may be the beginning of the closing tag.
    fn begun_tag(&self) -> usize {
        let (rest, close) = (&self.text.as_bytes()[self.at..], self.tags.close().as_bytes());
        (1..close.len()).rev().find(|length| rest.ends_with(&close[..*length])).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed(rule: &ReasoningRule, prompt: PromptEnd, pieces: &[&str]) -> SplitDelta {
        let mut stream = ReasoningStream::new(rule, prompt);
        let mut deltas: Vec<SplitDelta> = pieces.iter().map(|piece| stream.push(piece)).collect();
        deltas.push(stream.finish());
        SplitDelta {
            reasoning: deltas.iter().map(|delta| delta.reasoning.as_str()).collect(),
            utterance: deltas.iter().map(|delta| delta.utterance.as_str()).collect(),
        }
    }

    #[test]
    fn text_before_a_closing_tag_alone_stays_said_if_it_was_sent() {
        let rule = ReasoningRule::Think(ReasoningTags::default());
        let parts = |pieces: &[&str]| {
            let delta = streamed(&rule, PromptEnd::Plain, pieces);
            (delta.reasoning, delta.utterance)
        };
        let found = |reasoning: &str, utterance: &str| (reasoning.to_owned(), utterance.to_owned());
        assert_eq!(parts(&["tea", " \n</th", "ink>\nhot </think>?"]), found("", "tea \n\nhot </think>?"));
        assert_eq!(parts(&[" tea</think> hot"]), found("tea", "hot"));
        assert_eq!(parts(&[" \n", "</think", "> hot"]), found("", "hot"));
    }

    /// The pieces of texts in which parts of tags are likely.
    fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
        const PIECES: [&str; 12] =
            ["<think>", "</think>", "<", "</th", "ink>", "thi", " ", "\n", "é", "\\boxed{", "}", "a b"];
        prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12)
    }

    proptest! {
        #[test]
        fn deltas_are_the_parts_of_the_whole(pieces in pieces(), opened: bool) {
            let prompt = if opened { PromptEnd::Opened } else { PromptEnd::Plain };
            let tags = ReasoningTags::default();
            for rule in [ReasoningRule::None, ReasoningRule::Boxed, ReasoningRule::Think(tags.clone())] {
                let (found, text) = (streamed(&rule, prompt, &pieces), pieces.concat());
                let split = rule.split(&text, prompt);
                let [reasoning, utterance] = [split.reasoning, split.utterance].map(Option::unwrap_or_default);
                let is_tagged = matches!(rule, ReasoningRule::Think(_));
                let is_opened = opened || text.trim_start().starts_with(tags.open());
                if is_tagged && !is_opened && text.contains(tags.close()) && found.reasoning.is_empty() {
                    let without_tag = text.replacen(tags.close(), "", 1);
                    prop_assert_eq!(found.utterance, without_tag.trim(), "{:?}", pieces);
                } else {
                    prop_assert_eq!(found, SplitDelta { reasoning, utterance }, "{:?} {:?}", rule, pieces);
                }
            }
        }
    }
}
