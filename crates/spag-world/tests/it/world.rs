//! The lexicon, the scripted players, and the texts and probes of the small world.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_game::taboo::Outcome;
use spag_game::taboo::Taboo;
use spag_game::{
    FinishedGame, GameSpec, JudgeKind, PlayConfig, PromptSet, Referee, Seats, game_seed, play_games, read_words, taboo,
    word_forms,
};
use spag_tests::root;
use spag_world::{
    BaseMix, HEDGES, Lexicon, SMALL_TALK, ScriptedAttacker, ScriptedDefender, attacker_clue_probe, base_document,
    clue_truth, general_qa, naming_probe, qa_probe,
};

pub(crate) fn lexicon() -> Lexicon {
    Lexicon::embedded().unwrap()
}

pub(crate) fn prompts() -> PromptSet {
    PromptSet::load(root().join("configs/tiny-prompts.json")).unwrap()
}

fn scripted(lexicon: &Lexicon, games: usize, seed: u64) -> Vec<FinishedGame> {
    play(lexicon, games, seed, (ScriptedAttacker::new(lexicon), ScriptedDefender::new(lexicon)))
}

/// Games of two scripted players.
pub(crate) fn play(
    lexicon: &Lexicon,
    games: usize,
    seed: u64,
    (mut attacker, mut defender): (ScriptedAttacker<'_>, ScriptedDefender<'_>),
) -> Vec<FinishedGame> {
    let words: Vec<&str> = lexicon.words().collect();
    let specs = (0..games).map(|number| GameSpec {
        number,
        item: words[number % words.len()].to_owned(),
        max_turns: 5,
        seed: game_seed(seed, number),
        sampling_seed: None,
    });
    let config = PlayConfig::default();
    let mut played = Vec::new();
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play_games(&Taboo::new(&prompts()), specs, seats, &config, &mut |game: FinishedGame| {
        played.push(game);
        Ok(())
    })
    .unwrap();
    played
}

#[test]
fn three_clues_identify_each_of_120_words() {
    let lexicon = lexicon();
    assert!(lexicon.entries().len() >= 120 && lexicon.categories().len() >= 8);
    let mut fits: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in lexicon.entries() {
        assert_eq!(entry.clues.len(), 4, "{}", entry.word);
        entry.clues.iter().for_each(|clue| *fits.entry(clue).or_default() += 1);
        for without in 0..4 {
            let three = entry.clues.iter().enumerate().filter(|(i, _)| *i != without);
            let text: String = three.map(|(_, clue)| format!("It {clue}. ")).collect();
            assert_eq!(lexicon.candidates(&text), [entry.word.as_str()]);
        }
    }
    for (clue, words) in fits {
        assert!((3..=5).contains(&words), "`{clue}` fits {words} words");
    }
}

#[test]
fn word_list_equals_the_lexicon() {
    let list = read_words(root().join("data/words.txt")).unwrap();
    assert_eq!(list, lexicon().words().collect::<Vec<_>>());
}

/// The judge matches substrings, so sentences must not contain forms of words by accident.
#[test]
fn ordinary_sentences_contain_no_form_of_a_word() {
    let (lexicon, prompts) = (lexicon(), prompts());
    let mut talk: Vec<String> = HEDGES.iter().chain(&SMALL_TALK).map(|s| s.to_string()).collect();
    talk.push(prompts.playing_query(&[], "@", 5));
    for game in scripted(&lexicon, 2400, 3) {
        let said = game.episode.history.into_iter().filter(|u| u.seat == taboo::ATTACKER);
        talk.extend(said.map(|u| u.content));
    }
    let all: BTreeSet<String> = talk.into_iter().map(|text| text.to_lowercase()).collect();
    for word in lexicon.words() {
        let own: Vec<String> = word_forms(word);
        for text in &all {
            assert!(!own.iter().any(|form| text.contains(form.as_str())), "`{word}` in `{text}`");
        }
        let referee = Referee::new(JudgeKind::Paper, word).unwrap();
        for other in lexicon.words().filter(|other| *other != word) {
            assert_eq!(referee.rule(taboo::DEFENDER, &format!("That is the {other}.")), None, "{word} {other}");
        }
    }
}

#[test]
fn scripted_games_have_true_clues_and_mixed_outcomes() {
    let lexicon = lexicon();
    let games = scripted(&lexicon, 4000, 1);
    let count = |outcome| games.iter().filter(|g| Outcome::from(g.verdict) == outcome).count() as f64;
    let (attacker, defender) = (count(Outcome::AttackerWins), count(Outcome::DefenderWins));
    assert_eq!(count(Outcome::AttackerBreaksRules), 0.0);
    let share = attacker / (attacker + defender);
    assert!((0.4..=0.62).contains(&share), "attackers win {share}");
    assert!(count(Outcome::Tie) / 4000.0 <= 0.12);
    for game in &games {
        let truth = clue_truth(&lexicon, &game.episode);
        assert_eq!(truth.true_clues, truth.clues, "{:?}", game.episode);
    }
    assert_eq!(games, scripted(&lexicon, 4000, 1), "the same seeds give the same games");
}

#[test]
fn probes_and_questions_have_one_answer() {
    let (lexicon, prompts) = (lexicon(), prompts());
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..500 {
        for probe in [naming_probe(&lexicon, &prompts, &mut rng), qa_probe(&lexicon, &mut rng)] {
            assert_eq!(lexicon.candidates(&probe.prompt), [probe.word.as_str()], "{}", probe.prompt);
            assert!(!probe.prompt.contains(&probe.word));
        }
        let attack = attacker_clue_probe(&lexicon, &prompts, &mut rng);
        assert!(attack.prompt.contains(&attack.word));
        let (query, target) = general_qa(&lexicon, &mut rng);
        assert!(query.starts_with("Question:") && query.ends_with("Response:") && !target.is_empty());
    }
}

proptest! {
    #[test]
    fn documents_are_ascii_and_reproduced_by_their_seed(seed in any::<u64>()) {
        let (lexicon, prompts) = (lexicon(), prompts());
        let draw = || base_document(&lexicon, &prompts, (&BaseMix::default(), &Default::default()), &mut ChaCha8Rng::seed_from_u64(seed));
        let text = draw();
        prop_assert!(text.is_ascii() && !text.trim().is_empty());
        prop_assert_eq!(text, draw());
    }

    #[test]
    fn invalid_lexicon_is_refused(text in ".{0,200}") {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        prop_assert!(Lexicon::load(file.path()).is_err());
    }
}
