//! Samples of games whose players thought.

use spag_game::{Episode, PromptSet, ReasoningEnd, Taboo, Utterance, taboo};
use spag_io::{PromptFormat, ReasoningFormat};
use spag_rewards::{CreditConfig, Query, Sample, SampleReasoning, assign_rewards};

fn episode() -> Episode {
    let mut episode = Episode::new("tea", 5);
    for (seat, content, reasoning) in [
        (taboo::ATTACKER, "What do you drink?", Some("Lead to it.")),
        (taboo::DEFENDER, "Milk.", Some("It may be tea.")),
        (taboo::ATTACKER, "Hot?", None),
        (taboo::DEFENDER, "I know the word! It is tea!", Some("Hot: tea.")),
    ] {
        let reasoning = reasoning.map(str::to_owned);
        episode.history.push(Utterance { reasoning, ..Utterance::new(seat, content) });
    }
    episode
}

fn samples(format: PromptFormat, reasoning: SampleReasoning) -> Vec<Sample> {
    let game = Taboo::new(&PromptSet::default().with_format(format));
    let config = CreditConfig { reasoning, ..CreditConfig::default() };
    let made = assign_rewards(&[episode()], &game, &config).unwrap().samples;
    // As files have them.
    serde_json::from_str(&serde_json::to_string(&made).unwrap()).unwrap()
}

fn of(format: ReasoningFormat, keep: bool) -> SampleReasoning {
    SampleReasoning::new(format, Default::default(), keep)
}

#[test]
fn texts_have_reasoning_and_utterance_as_one_target() {
    let targets = |reasoning| samples(PromptFormat::Plain, reasoning).into_iter().map(|sample| sample.target);
    let think: Vec<String> = targets(SampleReasoning::default()).collect();
    assert_eq!(think, ["<think>It may be tea.</think>Milk.", "<think>Hot: tea.</think>I know the word! It is tea!"]);
    let none: Vec<String> = targets(of(ReasoningFormat::None, false)).collect();
    assert_eq!(none, ["Milk.", "I know the word! It is tea!"]);
    let tags = SampleReasoning::new(ReasoningFormat::Think, "[ ]".parse().unwrap(), false);
    assert_eq!(targets(tags).next().unwrap(), "[It may be tea.]Milk.");
}

#[test]
fn chats_have_reasoning_beside_the_answer() {
    for sample in samples(PromptFormat::Chat, SampleReasoning::default()) {
        assert!(sample.reasoning.is_some() && !sample.target.contains("think>"), "{sample:?}");
        let row = serde_json::to_value(&sample).unwrap();
        let last = row["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["reasoning_content"], sample.reasoning.unwrap());
    }
    let boxed = &samples(PromptFormat::Chat, of(ReasoningFormat::Boxed, false))[0];
    assert_eq!((boxed.target.as_str(), &boxed.reasoning), ("It may be tea. \\boxed{Milk.}", &None));
}

#[test]
fn queries_have_own_earlier_reasoning_only_if_it_is_kept() {
    for format in [PromptFormat::Plain, PromptFormat::Chat] {
        for keep in [false, true] {
            let last = samples(format, of(ReasoningFormat::Think, keep)).pop().unwrap();
            let query = match &last.query {
                Query::Messages(messages) => {
                    messages.iter().filter_map(|message| message.reasoning.clone()).collect::<String>()
                }
                query => query.text(),
            };
            assert_eq!(query.contains("It may be tea."), keep, "{query}");
            assert!(!query.contains("Lead to it."), "{query}");
        }
    }
}

/// Rows of games without reasoning are as they were.
#[test]
fn games_without_reasoning_have_the_samples_of_the_reference() {
    let mut plain = episode();
    plain.history.iter_mut().for_each(|said| said.reasoning = None);
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("reasoning"), "{text}");
    let made = assign_rewards(&[plain], &Taboo::default(), &CreditConfig::default()).unwrap().samples;
    let row = serde_json::to_value(&made[0]).unwrap();
    let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["query", "target", "reward", "role", "weight"]);
}

#[test]
fn records_keep_reasoning_on_a_round_trip() {
    let mut episode = episode();
    episode.history[1].reasoning_end = Some(ReasoningEnd::Forced);
    let text = serde_json::to_string(&episode).unwrap();
    assert!(text.contains(r#""content":"Milk.","reasoning":"It may be tea.","reasoning_end":"forced""#), "{text}");
    assert_eq!(serde_json::from_str::<Episode>(&text).unwrap(), episode);
}
