//! What a base model learns: texts of the small world, or turns of games that are played at random.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_game::games::BestActions;
use spag_game::{Episode, Game, NamedGame, PromptSet, game_seed};
use spag_io::{Progress, PromptFormat, quote};
use spag_rewards::Sample;
use spag_world::Lexicon;

use super::questions::{Question, Turn};
use crate::config::{BaseConfig, DocumentOrder, DocumentSettings, load_lexicon, load_prompts};
use crate::error::{Error, Result};
use crate::seeds::stage_seed;

/// The source of training texts.
pub(super) enum Texts {
    /// The lexicon, in the wordings of Adversarial Taboo.
    World { lexicon: Box<Lexicon>, prompts: Box<PromptSet> },
    /// Games, in their own wordings.
    Games(Vec<NamedGame>),
}

/// A training text: all of it is learned, or its answer alone.
pub(super) struct Document {
    prompt: String,
    answer: String,
    learned: Learned,
}

/// What is learned of a document.
#[derive(Clone, Copy)]
enum Learned {
    All,
    Answer,
}

impl Document {
    /// The whole text.
    pub(super) fn text(&self) -> String {
        match self.prompt.is_empty() {
            true => self.answer.clone(),
            false => format!("{} {}", self.prompt, self.answer),
        }
    }

    pub(super) fn into_sample(self) -> Sample {
        match self.learned {
            Learned::All => Sample::sft("", self.text()),
            Learned::Answer => Sample::sft(self.prompt, self.answer),
        }
    }
}

impl Texts {
    /// Opens the games of a configuration, or else its lexicon.
    pub(super) fn open(config: &BaseConfig) -> Result<Self> {
        if config.games.is_empty() {
            let lexicon = Box::new(load_lexicon(config.lexicon.as_deref())?);
            let prompts = Box::new(load_prompts(config.prompts.as_deref(), PromptFormat::Plain)?);
            return Ok(Self::World { lexicon, prompts });
        }
        Ok(Self::Games(config.games.iter().map(|text| open(text)).collect::<Result<_>>()?))
    }

    /// The documents, in random order.
    pub(super) fn documents(&self, config: &BaseConfig, progress: &mut dyn Progress) -> Result<Vec<Document>> {
        let count = config.documents.count.max(config.tokenizer.documents);
        let seed = stage_seed(config.seed, "base/documents");
        progress.begin("documents", count as u64);
        let documents = match self {
            Self::World { lexicon, prompts } => world(config, lexicon, prompts, count, seed, progress),
            Self::Games(games) => turns(config, games, count, seed)?,
        };
        progress.advance(count as u64, "");
        progress.end();
        Ok(documents)
    }
}

fn world(
    config: &BaseConfig,
    lexicon: &Lexicon,
    prompts: &PromptSet,
    count: usize,
    seed: u64,
    progress: &mut dyn Progress,
) -> Vec<Document> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut document = |done: usize| {
        if done.is_multiple_of(1000) {
            progress.advance(done as u64, "");
        }
        let answer = spag_world::base_document(
            lexicon,
            prompts,
            (&config.documents.mix, &config.documents.reasoning_tags),
            &mut rng,
        );
        Document { prompt: String::new(), answer, learned: Learned::All }
    };
    (1..=count).map(&mut document).collect()
}

/// Turns of random games, as many of each game.
fn turns(config: &BaseConfig, games: &[NamedGame], count: usize, seed: u64) -> Result<Vec<Document>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut played: Vec<Vec<Document>> = Vec::new();
    let mut made = 0;
    for (at, NamedGame { game, .. }) in games.iter().enumerate() {
        let end = count * (at + 1) / games.len();
        for number in 0.. {
            if made >= end {
                break;
            }
            let mut documents = play(&**game, game_seed(seed ^ at as u64, number), &config.documents, &mut rng)?;
            documents.truncate(end - made);
            made += documents.len();
            played.push(documents);
        }
    }
    if config.documents.order == DocumentOrder::Games {
        played.shuffle(&mut rng);
    }
    let mut documents: Vec<Document> = played.into_iter().flatten().collect();
    if config.documents.order == DocumentOrder::Turns {
        documents.shuffle(&mut rng);
    }
    let learned_whole = ((1.0 - config.documents.answers) * count as f64).round() as usize;
    documents.iter_mut().skip(learned_whole).for_each(|document| document.learned = Learned::Answer);
    Ok(documents)
}

/// The turns of a game in which both players choose any legal action, a share of them with questions in place of actions.
fn play(game: &dyn Game, seed: u64, settings: &DocumentSettings, rng: &mut ChaCha8Rng) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    let mut state = BestActions::start(game, seed)?;
    let mut episode = Episode::new("", 0);
    let mut actions: Vec<String> = Vec::new();
    while let Some(legal) = state.legal_actions().filter(|legal| !legal.is_empty()) {
        let seat = state.to_move();
        let shown = state.prompt(seat, &episode).text();
        let turn = Turn { game, seed, actions: &actions, legal: &legal, kinds: &settings.question_kinds };
        let action = turn.action(rng).to_owned();
        for number in 0..settings.per_turn {
            let asks = settings.questions > 0.0 && rng.random::<f64>() < settings.questions;
            let question = if asks { turn.question(rng)? } else { None };
            let (prompt, answer) = match question {
                // What is played is one of the actions that are learned.
                None if number == 0 => (shown.clone(), action.clone()),
                None => (shown.clone(), turn.action(rng).to_owned()),
                Some(Question { line, answer }) => (format!("{shown}[GAME] {line}\n"), answer),
            };
            documents.push(Document { prompt, answer, learned: Learned::All });
        }
        state.apply(&action);
        episode.push(seat, action.as_str());
        actions.push(action);
    }
    Ok(documents)
}

/// The game of a name that options may follow.
fn open(text: &str) -> Result<NamedGame> {
    let named = NamedGame::open(text, PromptFormat::Plain)?;
    if BestActions::start(&*named.game, 0)?.legal_actions().is_none() {
        let message = format!(
            "{} has no list of legal actions to choose from; kuhn-poker, tic-tac-toe, connect-four and nim have",
            quote(&named.name)
        );
        return Err(Error::BadSetting { setting: "games", message });
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use spag_io::Silent;

    use super::*;
    use crate::config::QuestionKind;

    #[test]
    fn documents_of_a_game_stay_together_and_each_turn_has_several() {
        const ASKED: &str = "[GAME] What wins?\n";
        let turn = |document: &Document| document.prompt.trim_end_matches(ASKED).to_owned();
        // Runs of four documents that are of one turn.
        let of_one_turn = |documents: &[Document]| {
            let one = |four: &&[Document]| four.iter().all(|document| turn(document) == turn(&four[0]));
            documents.chunks(4).filter(one).count()
        };
        let documents = |order| {
            let settings = DocumentSettings {
                count: 400,
                answers: 1.0,
                questions: 0.5,
                question_kinds: vec![QuestionKind::Wins],
                per_turn: 4,
                order,
                ..DocumentSettings::default()
            };
            let mut config =
                BaseConfig { games: vec!["tic-tac-toe".to_owned()], documents: settings, ..BaseConfig::default() };
            config.tokenizer.documents = 1;
            Texts::open(&config).unwrap().documents(&config, &mut Silent).unwrap()
        };
        let games = documents(DocumentOrder::Games);
        assert_eq!((games.len(), of_one_turn(&games)), (400, 100));
        let asked = games.iter().filter(|document| document.prompt.ends_with(ASKED)).count();
        assert!((150..250).contains(&asked), "{asked}");
        // The turns of a game follow each other.
        let firsts = games.chunks(4).filter(|four| !turn(&four[0]).contains("[Player")).count();
        let begun = (1..100).filter(|at| !turn(&games[4 * at]).contains("[Player 0]")).count();
        assert!((10..20).contains(&firsts) && begun + 1 == firsts, "{firsts} {begun}");

        let turns = documents(DocumentOrder::Turns);
        assert!(turns.len() == 400 && of_one_turn(&turns) < 20);
    }
}
