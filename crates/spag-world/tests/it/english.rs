//! The scripted players with real words: their sentences, their results, and the rules of their lexicon.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;
use spag_game::taboo::Outcome;
use spag_game::taboo::Taboo;
use spag_game::{
    FinishedGame, GameSpec, JudgeKind, PlayConfig, PromptSet, Referee, Seats, game_seed, play_games, taboo,
};
use spag_world::{Lexicon, ScriptedAttacker, ScriptedDefender, clue_truth};

/// A lexicon of nouns in groups of five that share clues, like siblings in WordNet.
fn lexicon(words: usize) -> Lexicon {
    let name = |number: usize| -> String {
        // Consonants alternate with vowels, so that no word occurs in a sentence or in another word.
        let letters = b"bcdfghjklmnpqrstvwxz";
        let digit = |at: u32| char::from(letters[number / 20usize.pow(at) % 20]);
        format!("{}u{}u{}u{}", digit(3), digit(2), digit(1), digit(0))
    };
    let mut text = String::new();
    for category in 0..4 {
        text += &format!("[[category]]\nname = \"quag{0}\"\nplural = \"quag{0}s\"\n", ["a", "b", "c", "d"][category]);
        for number in (0..words).filter(|number| number % 4 == category) {
            let (group, mass) = (number / 20, number % 3 == 0);
            let plural = if mass { String::new() } else { format!("plural = \"{}s\"\n", name(number)) };
            text += &format!(
                "[category.nouns.{}]\n{plural}clues = [\"is a gadget number {number}, of its own\", \"is a kind of gizmo {group}\", \
                 \"is a kind of device {}\", \"has a knob {}\", \"can be a widget {}\"]\n",
                name(number),
                group / 5,
                number % 97,
                number / 2
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lexicon.toml");
    fs::write(&file, text).unwrap();
    Lexicon::load(file).unwrap()
}

fn played(lexicon: &Lexicon, games: usize, seed: u64) -> Vec<FinishedGame> {
    let words: Vec<&str> = lexicon.words().collect();
    let specs = (0..games).map(|number| GameSpec {
        number,
        item: words[number * 7 % words.len()].to_owned(),
        max_turns: 5,
        seed: game_seed(seed, number),
        sampling_seed: None,
    });
    let (mut attacker, mut defender) = (ScriptedAttacker::new(lexicon), ScriptedDefender::new(lexicon));
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    let mut played = Vec::new();
    play_games(&Taboo::new(&PromptSet::default()), specs, seats, &PlayConfig::default(), &mut |game: FinishedGame| {
        played.push(game);
        Ok(())
    })
    .unwrap();
    played
}

#[test]
fn games_on_thousands_of_words_have_true_clues_and_mixed_outcomes() {
    let lexicon = lexicon(4000);
    let games = played(&lexicon, 1500, 1);
    let share = |outcome| games.iter().filter(|game| Outcome::from(game.verdict) == outcome).count() as f64 / 1500.0;
    assert_eq!(share(Outcome::AttackerBreaksRules), 0.0);
    let (attacker, defender) = (share(Outcome::AttackerWins), share(Outcome::DefenderWins));
    assert!(attacker > 0.2 && defender > 0.2 && share(Outcome::Tie) < 0.3, "{attacker} {defender}");
    for game in &games {
        let truth = clue_truth(&lexicon, &game.episode);
        assert_eq!(truth.true_clues, truth.clues, "{:?}", game.episode);
        let referee = Referee::new(JudgeKind::Paper, &game.episode.item).unwrap();
        let mut attacks = game.episode.history.iter().filter(|utterance| utterance.seat == taboo::ATTACKER);
        assert!(attacks.all(|said| referee.rule(taboo::ATTACKER, &said.content).is_none()));
    }
    assert_eq!(games, played(&lexicon, 1500, 1), "the same seeds give the same games");
}

#[test]
fn utterances_are_varied_and_name_nouns_with_their_articles() {
    let lexicon = lexicon(200);
    let games = played(&lexicon, 600, 2);
    let mut beginnings = BTreeSet::new();
    for utterance in games.iter().flat_map(|game| &game.episode.history) {
        let text = &utterance.content;
        beginnings.insert(text.split(' ').take(2).collect::<Vec<_>>().join(" "));
        assert!(text.ends_with(['.', '?', '!']) && text.starts_with(char::is_uppercase), "{text}");
        assert!(!text.contains("  ") && !text.contains(" a a") && !text.contains("@"), "{text}");
        if utterance.seat == taboo::DEFENDER && !text.contains("I know the word!") {
            let words: Vec<&str> = text.split(' ').map(|word| word.trim_end_matches(['.', '?'])).collect();
            for (at, word) in words.iter().enumerate() {
                if let Some(entry) = lexicon.get(word) {
                    assert_eq!(words[at - 1] == "a", entry.plural.is_some(), "{text}");
                }
            }
        }
    }
    assert!(beginnings.len() > 25, "{beginnings:?}");
}

#[test]
fn lexicon_of_nouns_is_checked() {
    let lexicon = |noun: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lexicon.toml");
        let text = format!("[[category]]\nname = \"animal\"\nplural = \"animals\"\n{noun}");
        fs::write(&file, text).unwrap();
        Lexicon::load(file).map_err(|error| error.to_string())
    };
    let clues = "clues = [\"has fur\", \"has a tail, a paw and an ear\", \"is a kind of mammal\"]";
    let made = lexicon(&format!("[category.nouns.otter]\nplural = \"otters\"\n{clues}")).unwrap();
    assert_eq!(made.candidates("Which animal has a tail, a paw and an ear?"), ["otter"]);
    assert_eq!(made.clues_in("It HAS fur. It is a kind of mammals."), ["has fur"]);
    for (noun, why) in [
        ("[category.nouns.otter]\nclues = [\"has fur\", \"is wet\"]", "`otter` needs at least 3 clues"),
        ("[category.nouns.otter]\nclues = [\"has fur\", \"is wet\", \"is wet\"]", "all different"),
        (
            "[category.nouns.otter]\nclues = [\"has fur\", \"is wet\", \"is a sea otter\"]",
            "a form in its clue `is a sea otter`",
        ),
        ("[category.nouns.otter]\nclues = [\"has fur\", \"is wet\", \"is it?\"]", "the clue `is it?` of `otter`"),
        ("[category.nouns.otter]\nclues = [\"has fur\", \"is wet\", \"\"]", "the clue `` of `otter`"),
        ("[category.nouns.Otter]\nclues = [\"has fur\", \"is wet\", \"dives\"]", "lower-case ASCII letters"),
        ("[category.nouns.sound]\nclues = [\"has fur\", \"is wet\", \"dives\"]", "which the scripted players say"),
        ("[category.nouns.nimal]\nclues = [\"has fur\", \"is wet\", \"dives\"]", "a form in \"animal\""),
        ("[category.nouns.otter]\nfur = 1\nclues = []", "unknown field `fur`"),
        (
            "[category.words]\notter = [\"has fur\", \"is wet\", \"dives\"]\n[category.nouns.newt]\nclues = []",
            "needs `plural` and `nouns`",
        ),
    ] {
        let said = lexicon(noun).unwrap_err();
        assert!(said.contains(why), "{noun}: {said}");
    }
}

/// All occurrences of clues by the small world's original algorithm: each clue in turn, longest first.
fn clues_one_by_one(lexicon: &Lexicon, text: &str) -> Vec<String> {
    let mut clues: Vec<&String> = lexicon.entries().iter().flat_map(|entry| &entry.clues).collect();
    clues.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    clues.dedup();
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let whole = |text: &str, clue: &str| {
        text.match_indices(clue)
            .map(|(at, _)| at)
            .find(|at| !letter(text[..*at].chars().next_back()) && !letter(text[at + clue.len()..].chars().next()))
    };
    let (mut lower, mut found) = (text.to_lowercase(), Vec::new());
    for clue in clues {
        while let Some(at) = whole(&lower, clue) {
            found.push(clue.clone());
            lower.replace_range(at..at + clue.len(), &" ".repeat(clue.len()));
        }
    }
    found
}

proptest! {
    #[test]
    fn index_finds_what_a_search_for_each_clue_finds(
        parts in prop::collection::vec(("[a-z ,.?!É]{0,6}", 0usize..480, 0usize..4), 0..12)
    ) {
        let lexicon = Lexicon::embedded().unwrap();
        let clues: Vec<&String> = lexicon.entries().iter().flat_map(|entry| &entry.clues).collect();
        let mut text = String::new();
        for (noise, clue, cut) in parts {
            let clue = clues[clue % clues.len()];
            text += &noise;
            text += &clue[..clue.len() - cut.min(clue.len())];
            text += if cut == 3 { "s " } else { " " };
        }
        prop_assert_eq!(lexicon.clues_in(&text), clues_one_by_one(&lexicon, &text));
    }
}
