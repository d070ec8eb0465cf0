//! A player's own earlier reasoning in its prompts.

use spag_io::{ChatMessage, ChatRole, PromptText, ReasoningRule, TurnPrompt};

use crate::episode::UtteranceView;
use crate::policy::TurnRequest;
use crate::seat::Seat;

impl TurnRequest<'_> {
    /// The prompt, in which the player's own utterances follow the reasoning before them.
    pub fn prompt_with_reasoning(&self, rule: &ReasoningRule) -> TurnPrompt {
        let history: Vec<UtteranceView<'_>> = self.episode.history.iter().map(UtteranceView::from).collect();
        with_own_reasoning(self.prompt.clone(), self.seat, &history, rule)
    }
}

/// The prompt of a seat after `history`, in which its own utterances follow the reasoning before them: in a chat as
/// [`ChatMessage::reasoning`], in a text by `rule`. Utterances that the prompt does not show are left out.
pub fn with_own_reasoning(
    prompt: TurnPrompt,
    seat: Seat,
    history: &[UtteranceView<'_>],
    rule: &ReasoningRule,
) -> TurnPrompt {
    if history.iter().all(|said| said.seat != seat || said.reasoning.is_none()) {
        return prompt;
    }
    match prompt {
        TurnPrompt::Plain(text) => TurnPrompt::Plain(in_text(&text, seat, history, rule)),
        TurnPrompt::Chat(messages) => TurnPrompt::Chat(in_chat(messages, seat, history)),
    }
}

fn in_chat(mut messages: Vec<ChatMessage>, seat: Seat, history: &[UtteranceView<'_>]) -> Vec<ChatMessage> {
    let mut rest = history.iter().filter(|said| said.seat == seat);
    for message in messages.iter_mut().filter(|message| message.role == ChatRole::Assistant) {
        let is_it = |said: &&UtteranceView<'_>| shows(message.content.text(), &said.content);
        let Some(said) = rest.clone().find(is_it) else { continue };
        message.reasoning = said.reasoning.as_deref().map(str::to_owned);
        // The ones before it are not shown.
        rest.by_ref().find(is_it);
    }
    messages
}

fn in_text(prompt: &PromptText, seat: Seat, history: &[UtteranceView<'_>], rule: &ReasoningRule) -> PromptText {
    let (mut text, mut at, mut rest) = (PromptText::default(), 0, history);
    for range in prompt.said() {
        text.push(&prompt.text()[at..range.start]);
        let said = &prompt.text()[range.clone()];
        at = range.end;
        // What is said and no utterance, as a target word, is not in the history.
        if let Some(index) = rest.iter().position(|one| shows(said, &one.content)) {
            let one = &rest[index];
            if let (Some(reasoning), ReasoningRule::Think(tags), true) = (&one.reasoning, rule, one.seat == seat) {
                text.push(tags.open());
                text.push_said(reasoning);
                text.push(tags.close());
            }
            rest = &rest[index + 1..];
        }
        text.push_said(said);
    }
    text.push(&prompt.text()[at..]);
    text
}

/// Whether a prompt shows an utterance by this text: some games put brackets around an action.
fn shows(shown: &str, said: &str) -> bool {
    let (shown, said) = (shown.trim(), said.trim());
    shown == said || shown.strip_prefix('[').and_then(|shown| shown.strip_suffix(']')) == Some(said)
}

#[cfg(test)]
mod tests {
    use spag_io::{PromptFormat, ReasoningTags};

    use super::*;
    use crate::{Episode, PromptSet, Utterance, taboo};

    fn episode() -> Episode {
        let mut episode = Episode::new("tea", 5);
        for (seat, content, reasoning) in [
            (taboo::ATTACKER, "What do you drink?", Some("Lead to tea.")),
            (taboo::DEFENDER, "Water.", Some("Hide that I know.")),
            (taboo::ATTACKER, "Hot?", None),
        ] {
            let reasoning = reasoning.map(str::to_owned);
            episode.history.push(Utterance { reasoning, ..Utterance::new(seat, content) });
        }
        episode
    }

    fn prompt(format: PromptFormat, seat: Seat) -> TurnPrompt {
        let (episode, rule) = (episode(), ReasoningRule::Think(ReasoningTags::default()));
        let prompts = PromptSet::default().with_format(format);
        let history = if seat == taboo::ATTACKER { &episode.history[..2] } else { &episode.history[..] };
        let prompt = prompts.playing_prompt(history, "tea", 5);
        let views: Vec<UtteranceView<'_>> = history.iter().map(UtteranceView::from).collect();
        with_own_reasoning(prompt, seat, &views, &rule)
    }

    #[test]
    fn own_reasoning_is_before_own_utterances_and_that_of_others_nowhere() {
        for (seat, own, other) in [
            (taboo::ATTACKER, "<think>Lead to tea.</think>What do you drink?", "Hide"),
            (taboo::DEFENDER, "<think>Hide that I know.</think>Water.", "Lead"),
        ] {
            let TurnPrompt::Plain(text) = prompt(PromptFormat::Plain, seat) else { panic!() };
            assert!(text.text().contains(own) && !text.text().contains(other), "{}", text.text());
            let said: Vec<_> = text.said().iter().map(|range| &text.text()[range.clone()]).collect();
            assert!(said.iter().all(|said| !said.contains("<think>")), "{said:?}");
            let TurnPrompt::Chat(messages) = prompt(PromptFormat::Chat, seat) else { panic!() };
            let thought: Vec<_> = messages.iter().filter_map(|message| message.reasoning.as_deref()).collect();
            assert_eq!(thought.len(), 1, "{messages:?}");
            assert!(own.contains(thought[0]));
        }
    }

    #[test]
    fn actions_in_brackets_and_hidden_ones_keep_their_reasoning() {
        let said = [("hidden", "a"), ("4", "b")].map(|(content, reasoning)| Utterance {
            reasoning: Some(reasoning.to_owned()),
            ..Utterance::new(taboo::ATTACKER, content)
        });
        let history = said.each_ref().map(UtteranceView::from);
        let chat = vec![ChatMessage::new(ChatRole::Assistant, PromptText::all_said("[4]"))];
        let TurnPrompt::Chat(chat) =
            with_own_reasoning(TurnPrompt::Chat(chat), taboo::ATTACKER, &history, &ReasoningRule::Boxed)
        else {
            panic!()
        };
        assert_eq!(chat[0].reasoning.as_deref(), Some("b"));
    }
}
