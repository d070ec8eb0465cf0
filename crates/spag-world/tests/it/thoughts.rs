//! Scripted players that think, and documents about what they think.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::taboo::Outcome;
use spag_game::{Episode, FinishedGame, taboo};
use spag_io::{PromptEnd, ReasoningRule, ReasoningTags};
use spag_world::{BaseMix, Guesses, Lexicon, ScriptedAttacker, ScriptedDefender, THINK_FIRST, Thoughts, base_document};

use crate::world::{lexicon, play, prompts};

fn thinking(lexicon: &Lexicon, games: usize) -> Vec<FinishedGame> {
    let attacker = ScriptedAttacker::new(lexicon).with_thoughts(Thoughts::Told);
    let defender = ScriptedDefender::new(lexicon).with_thoughts(Thoughts::Told).with_guesses(Guesses::Sure);
    play(lexicon, games, 3, (attacker, defender))
}

/// The clues of the attacker before a turn, in the order in which they were said.
fn clues<'a>(lexicon: &'a Lexicon, episode: &Episode, before: usize) -> Vec<&'a str> {
    let said = episode.history[..before].iter().filter(|u| u.seat == taboo::ATTACKER);
    let in_order = |text: String| {
        let mut found = lexicon.clues_in(&text);
        found.sort_by_key(|clue| text.find(clue));
        found
    };
    said.flat_map(|u| in_order(u.content.to_lowercase())).collect()
}

#[test]
fn defenders_list_the_words_of_each_clue_and_predict_if_one_is_left() {
    let lexicon = lexicon();
    let (mut guesses, mut listed) = (0, 0);
    for FinishedGame { episode, verdict, .. } in thinking(&lexicon, 600) {
        for (at, said) in episode.history.iter().enumerate().filter(|(_, said)| said.seat == taboo::DEFENDER) {
            let reasoning = said.reasoning.as_deref().unwrap();
            let mut lines: Vec<&str> = reasoning.trim_end_matches('.').split(". ").collect();
            let last = lines.pop().unwrap();
            let told: Vec<(&str, Vec<&str>)> = lines
                .iter()
                .map(|line| line.strip_prefix("It ").unwrap().split_once(": ").unwrap())
                .map(|(clue, words)| (clue, words.split(' ').collect()))
                .collect();
            assert_eq!(told.iter().map(|(clue, _)| *clue).collect::<Vec<_>>(), clues(&lexicon, &episode, at));
            for (clue, words) in &told {
                let all: Vec<&str> = lexicon.words().filter(|word| lexicon.clue_is_true(word, clue)).collect();
                assert_eq!(*words, all, "{clue}");
                listed += 1;
            }
            if let Some(left) = last.strip_prefix("So ") {
                let of_all = |word: &&str| told.iter().all(|(_, words)| words.contains(word));
                assert!(left.split(' ').all(|word| of_all(&word)), "{reasoning}");
                assert!(left.split(' ').any(|word| word == episode.item), "{reasoning}");
            }
            if said.content.starts_with("I know the word!") {
                assert_eq!(last, format!("So {}", episode.item), "{reasoning}");
                guesses += 1;
                assert_eq!(Outcome::from(verdict), Outcome::DefenderWins);
            }
        }
    }
    assert!(guesses > 150 && listed > 800, "{guesses} {listed}");
}

#[test]
fn attackers_plan_clues_that_they_have_not_given() {
    let lexicon = lexicon();
    for FinishedGame { episode, .. } in thinking(&lexicon, 200) {
        for (at, said) in episode.history.iter().enumerate().filter(|(_, said)| said.seat == taboo::ATTACKER) {
            let (word, plan) = said.reasoning.as_deref().unwrap().split_once(": ").unwrap();
            assert_eq!(word, format!("The {}", episode.item));
            let plan: Vec<&str> = plan.trim_end_matches('.').split(", ").collect();
            assert!(plan.iter().all(|clue| lexicon.clue_is_true(&episode.item, clue)), "{plan:?}");
            let given = clues(&lexicon, &episode, at);
            if given.len() < plan.len() {
                assert!(!given.contains(&plan[0]), "{plan:?} after {given:?}");
            }
        }
    }
}

#[test]
fn documents_have_questions_with_right_answers_at_once_and_after_reasoning() {
    let (lexicon, prompts, rng) = (lexicon(), prompts(), &mut ChaCha8Rng::seed_from_u64(1));
    let none = BaseMix { games: 0.0, running: 0.0, facts: 0.0, questions: 0.0, riddles: 0.0, thoughts: 1.0 };
    let tags: ReasoningTags = "[ ]".parse().unwrap();
    let rule = ReasoningRule::Think(tags.clone());
    let (mut kinds, mut turns) = ([0; 6], 0);
    for _ in 0..2000 {
        let text = base_document(&lexicon, &prompts, (&none, &tags), rng);
        let Some((question, answer)) = text.split_once("? Response: ") else {
            turns += usize::from(text.contains('['));
            continue;
        };
        let split = rule.split(answer, PromptEnd::Plain);
        let (thinks, question) = match question.strip_prefix(THINK_FIRST) {
            Some(question) => (true, question.trim_start()),
            None => (false, question),
        };
        assert_eq!(split.reasoning.is_some(), thinks, "{text}");
        let said = split.utterance.unwrap();
        let kind = if let Some((asked, choices)) = question.split_once(": ").and_then(|(_, rest)| rest.split_once(": "))
        {
            let clue = lexicon.clues_in(asked)[0];
            let holds = !asked.contains("is not one that");
            let choices: Vec<&str> = choices.split([',', ' ']).filter(|word| !["", "or"].contains(word)).collect();
            let right: Vec<&&str> = choices.iter().filter(|word| lexicon.clue_is_true(word, clue) == holds).collect();
            assert_eq!((choices.len(), right.len()), (4, 1), "{text}");
            assert_eq!(said, format!("That is the {}.", right[0]));
            usize::from(holds)
        } else {
            let [word] = lexicon.candidates(question)[..] else { panic!("{text}") };
            let clue = said.strip_prefix("It ").unwrap().trim_end_matches('.');
            assert!(lexicon.clue_is_true(word, clue) && !question.contains(clue), "{text}");
            2
        };
        kinds[2 * kind + usize::from(thinks)] += 1;
    }
    assert!(kinds.iter().all(|count| *count > 40) && turns > 800, "{kinds:?} {turns}");
}
