use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn rule(format: &str) -> ReasoningRule {
    match format {
        "think" => ReasoningRule::Think(ReasoningTags::default()),
        "boxed" => ReasoningRule::Boxed,
        _ => ReasoningRule::None,
    }
}

fn end(case: &Value) -> PromptEnd {
    if case["prompt_opens"] == true { PromptEnd::Opened } else { PromptEnd::Plain }
}

#[test]
fn completions_are_split_by_the_rules() {
    let cases: Value = serde_json::from_str(include_str!("../../tests/data/reasoning.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 30);
    for case in cases {
        let split = rule(case["format"].as_str().unwrap()).split(case["text"].as_str().unwrap(), end(case));
        let parts = (split.reasoning.as_deref(), split.utterance.as_deref());
        assert_eq!(parts, (case["reasoning"].as_str(), case["utterance"].as_str()), "{case}");
    }
}

#[test]
fn tags_that_split_nothing_are_refused() {
    for (text, why) in [
        ("<a> <a>", "are equal"),
        (" </a>", "one is empty"),
        ("<a> ", "one is empty"),
        ("<a>", "not two tags"),
        ("<a> b </a>", "not two tags"),
        ("<a> <a>b", "contain each other"),
    ] {
        let problem = text.parse::<ReasoningTags>().unwrap_err();
        assert!(problem.contains(why), "{text}: {problem}");
    }
    assert!(ReasoningTags::new("<a\t>", "</a>").unwrap_err().contains("have blanks"));
    let tags: ReasoningTags = serde_json::from_str(r#""[THINK] [/THINK]""#).unwrap();
    assert_eq!((tags.open(), tags.close(), tags.to_string()), ("[THINK]", "[/THINK]", "[THINK] [/THINK]".into()));
    assert_eq!(serde_json::to_value(&tags).unwrap(), "[THINK] [/THINK]");
    assert_eq!(tags.end_of_prompt("a [THINK]\n"), PromptEnd::Opened);
    assert_eq!(tags.end_of_prompt("a [THINK] b"), PromptEnd::Plain);
}

/// Texts in which parts of tags are likely.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<think>"),
        Just("</think>"),
        Just("<"),
        Just("</th"),
        Just("ink>"),
        Just(" "),
        Just("\n"),
        Just("é"),
        Just("\\boxed{"),
        Just("{"),
        Just("}"),
        Just("a"),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_growing_text_is_scanned_as_the_whole(text in pieces(), opened: bool) {
        let prompt = if opened { PromptEnd::Opened } else { PromptEnd::Plain };
        let new = || ReasoningScan::new(ReasoningTags::default(), prompt);
        let mut growing = new();
        for (at, c) in text.char_indices() {
            let so_far = &text[..at + c.len_utf8()];
            prop_assert_eq!(growing.push(so_far), new().push(so_far), "{}", so_far);
        }
    }

    #[test]
    fn a_stream_gives_the_parts_of_the_whole(text in pieces(), opened: bool, cuts in prop::collection::vec(0usize..40, 0..6)) {
        let prompt = if opened { PromptEnd::Opened } else { PromptEnd::Plain };
        for format in ["think", "boxed", "none"] {
            let mut stream = ReasoningStream::new(&rule(format), prompt);
            let (mut all, mut from, mut early) = (SplitDelta::default(), 0, false);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (0..=(*cut).min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap()).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            for cut in cuts {
                let delta = stream.push(&text[from..cut]);
                from = cut;
                early |= format == "think" && !delta.utterance.is_empty() && !text[..cut].contains("</think>");
                all.reasoning += &delta.reasoning;
                all.utterance += &delta.utterance;
            }
            let rest = stream.finish();
            all.reasoning += &rest.reasoning;
            all.utterance += &rest.utterance;
            let whole = rule(format).split(&text, prompt);
            // A text that nothing opened was given as said before its closing tag.
            if !(early && text.contains("</think>")) {
                prop_assert_eq!(all.reasoning, whole.reasoning.unwrap_or_default(), "{} {:?}", format, text);
                prop_assert_eq!(all.utterance, whole.utterance.unwrap_or_default(), "{} {:?}", format, text);
            }
        }
    }

    #[test]
    fn joined_parts_are_split_again(reasoning in "[a-z]{1,9}( [a-z]{1,9})?", utterance in "[a-z]{1,9}") {
        for format in ["think", "boxed"] {
            let joined = rule(format).join(Some(&reasoning), &utterance);
            let split = rule(format).split(&joined, PromptEnd::Plain);
            prop_assert_eq!((split.reasoning, split.utterance), (Some(reasoning.clone()), Some(utterance.clone())));
        }
    }

    #[test]
    fn parts_are_parts_of_the_text(text in pieces(), opened: bool) {
        let prompt = if opened { PromptEnd::Opened } else { PromptEnd::Plain };
        for format in ["think", "boxed"] {
            let split = rule(format).split(&text, prompt);
            for part in [split.utterance, split.reasoning.filter(|_| format == "think")].into_iter().flatten() {
                prop_assert!(text.contains(&part) && part.trim() == part && !part.is_empty(), "{part:?} {text:?}");
            }
        }
    }
}
