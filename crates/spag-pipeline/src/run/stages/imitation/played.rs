//! Games to imitate that are played now: by the scripted players, the base model, or a model behind an endpoint.
//!
//! Samples are the utterances of a game's winner by the rules. Of a game that was lost by a broken rule, nothing is worth
//! imitating.

use spag_game::{ScriptedPolicy, Seats, Tally, taboo};
use spag_io::{Progress, ReasoningFormat, write_json_atomically};
use spag_run::{Model, StageDone};
use spag_selfplay::{AnyPlayer, EndpointConfig, EndpointSettings, GameStats, PlayerPair};
use spag_world::{ScriptedAttacker, ScriptedDefender, Thoughts};

use super::source::Source;
use crate::config::{self, ImitationSource, RunConfig};
use crate::error::{Error, Result};
use crate::run::context::{RunContext, StageProgress};
use crate::run::endpoints::open_endpoint;
use crate::run::games::{GameSet, Note};

/// Games after which a model that wins almost none is given up.
const TRIAL: usize = 300;
/// The fewest games in a hundred that must be won without a broken rule.
const MIN_WON_PERCENT: usize = 1;
/// Written when the trial has passed, so that a run that resumes after it does not repeat it.
const TRIAL_PASSED: &str = "trial.json";

/// Plays the games of the scripted players.
pub(super) fn scripted(
    run: RunContext<'_>,
    source: &Source<'_>,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let lexicon = run.inputs.lexicon()?;
    let thinks = run.config.reasoning.reasoning == Some(ReasoningFormat::Think);
    let thoughts = if thinks { Thoughts::Told } else { Thoughts::Silent };
    let mut first = ScriptedAttacker::new(lexicon).with_thoughts(thoughts);
    let mut second = ScriptedDefender::new(lexicon).with_thoughts(thoughts).with_guesses(run.config.imitation.guesses);
    play_scripted(run, source, ("scripted", Seats::Versus([&mut first, &mut second])), done, progress)
}

/// Both players choose any of the legal actions.
pub(super) fn random(
    run: RunContext<'_>,
    source: &Source<'_>,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    play_scripted(run, source, ("random", Seats::SelfPlay(&mut ScriptedPolicy::random_actions())), done, progress)
}

/// Plays the games of players that are no models.
fn play_scripted(
    run: RunContext<'_>,
    source: &Source<'_>,
    (players, seats): (&str, Seats<'_>),
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let wanted = (&*source.part("play"), run.config.imitation.games);
    let games = GameSet::of_stage(run, source.game, &source.folder, wanted, players.to_owned(), done);
    let mut progress = StageProgress { stage: &source.title(), inner: progress };
    games.complete(run, done, |games| games.play(seats, &mut progress)).map(drop)
}

/// The base model plays both seats.
pub(super) fn base_model(
    run: RunContext<'_>,
    source: &Source<'_>,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let settings = &run.config.imitation;
    let open = || {
        run.player_with(
            &run.config.folder_of(Model::Base),
            settings.sampling.sampling(),
            ("imitation.max_new_tokens", settings.max_new_tokens),
        )
    };
    play_model(run, source, Model::Base.stage(), open, done, progress)?;
    Ok(())
}

/// A model behind an endpoint plays both seats. Its tokens are counted since the last start.
pub(super) fn endpoint(
    run: RunContext<'_>,
    source: &Source<'_>,
    player: &str,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<()> {
    let settings = &run.config.imitation;
    let endpoint = config::endpoint("imitation.player", player)?;
    let config = EndpointConfig::new(&settings.sampling, settings.max_new_tokens, &EndpointSettings::default());
    let RunConfig { template, reasoning, prompt_format, .. } = run.config;
    let config = config.with_reasoning(template, reasoning, *prompt_format);
    let players =
        format!("{}{}; temperature={}", endpoint.address(), config.describe_top_k(), config.sampling.temperature);
    let pair = play_model(run, source, players, || open_endpoint(endpoint, config), done, progress)?;
    let spent = pair.iter().flat_map(PlayerPair::iter).find_map(AnyPlayer::requests).unwrap_or_default();
    if pair.is_some() {
        progress.message(&format!(
            "{}: {} requests since the last start, {} prompt tokens, {} completion tokens",
            source.title(),
            spent.requests,
            spent.prompt_tokens,
            spent.completion_tokens
        ));
    }
    for (what, count) in [
        ("requests", spent.requests),
        ("prompt_tokens", spent.prompt_tokens),
        ("completion_tokens", spent.completion_tokens),
    ] {
        done.counts.insert(what.to_owned(), count);
    }
    Ok(())
}

/// Plays the games of a model against itself. Returns the players, unless all games were played before.
///
/// The first [`TRIAL`] games are played alone, so that what they decide depends neither on ranks nor on kills.
///
/// # Errors
/// [`Error::Stopped`] if too few of the trial's games or of all games are won without a broken rule.
fn play_model(
    run: RunContext<'_>,
    source: &Source<'_>,
    players: String,
    open: impl FnOnce() -> Result<AnyPlayer>,
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<Option<PlayerPair>> {
    let games = run.config.imitation.games;
    let all = GameSet::of_stage(run, source.game, &source.folder, (&source.part("play"), games), players, done);
    let all = GameSet { note: Note::Accepted, ..all };
    let (mut open, mut pair) = (Some(open), None);
    let mut play = |games: GameSet<'_>, done: &mut StageDone| {
        games.complete(run, done, |games| {
            if let Some(open) = open.take() {
                pair = Some(PlayerPair::self_play(open()?));
            }
            match &mut pair {
                Some(pair) => {
                    games.play_pair(pair, &mut StageProgress { stage: &source.title(), inner: &mut *progress })
                }
                None => Ok(()),
            }
        })
    };
    let passed = source.folder.file(TRIAL_PASSED);
    if all.count > TRIAL && !run.ranks.decide(|| Ok(passed.exists()))? {
        let stats = play(GameSet { count: TRIAL, ..all.clone() }, done)?;
        let won = require_won_games(run, source, stats.as_deref())?;
        run.ranks.on_rank_0(|| Ok(write_json_atomically(&passed, &won)?))?;
    }
    let stats = play(all, done)?;
    let won = require_won_games(run, source, stats.as_deref())?;
    // Other ranks do not know it.
    if !won.is_empty() {
        progress.message(&format!("{}: {won}", source.title()));
    }
    Ok(pair)
}

/// Stops the run if too few of the games were won without a broken rule. `played` are their statistics, on rank 0, where
/// the result is how many were, in words.
fn require_won_games(run: RunContext<'_>, source: &Source<'_>, played: Option<&GameStats>) -> Result<String> {
    let mut won = String::new();
    let reason = run.ranks.text(|| match played.map(|stats| judged(stats.counts(), source.kind)) {
        Some(Ok(said)) => {
            won = said;
            Ok(None)
        }
        Some(Err(reason)) => Ok(Some(reason)),
        None => Ok(None),
    })?;
    match reason {
        None => Ok(won),
        Some(reason) => {
            Err(Error::Stopped { stage: source.folder.name.clone(), reason, file: source.folder.episodes() })
        }
    }
}

/// How many games were won without a broken rule; as an error if they are too few, with what may help.
fn judged(counts: &Tally, source: ImitationSource) -> std::result::Result<String, String> {
    let labels = counts.labels();
    let (games, won) = (counts.games(), counts.won_by_the_rules());
    let percent = 100.0 * won as f64 / games.max(1) as f64;
    let said = format!("{won} of {games} games ({percent:.1}%) were won without a broken rule");
    if won > 0 && won * 100 >= games * MIN_WON_PERCENT {
        return Ok(format!("{said}, and their winners' utterances become samples"));
    }
    let breakers = if labels.has_refusals() { "a player".to_owned() } else { labels.seats[0].in_a_sentence() };
    // The players of the program that know the game.
    let known = match labels == &taboo::LABELS {
        true => "\"scripted\"",
        false => "\"random\" if the game has a list of actions",
    };
    let other = match source {
        ImitationSource::SelfPlay => format!("another imitation.source ({known}, \"endpoint\", \"games\")"),
        _ => format!("another model as imitation.player, or another imitation.source (\"self\", {known}, \"games\")"),
    };
    Err(format!(
        "{said}; {} broke the rules in {}, and {} are ties. Too few to learn from: try another \
         prompt_format, imitation.temperature or imitation.top_k, more imitation.games, or {other}, in another run_dir",
        breakers,
        counts.broken_rules(),
        counts.ties()
    ))
}

#[cfg(test)]
mod tests {
    use spag_game::{Ending, Verdict};

    use super::*;

    fn counts(endings: &[(Ending, usize)]) -> Tally {
        let mut counts = Tally::new(&taboo::LABELS);
        endings.iter().for_each(|(ending, games)| (0..*games).for_each(|_| counts.add(&Verdict::of(*ending, 3))));
        counts
    }

    #[test]
    fn hundredth_of_the_games_must_be_won_without_a_broken_rule() {
        let broken = |won, broken| counts(&[(taboo::WRONG_GUESS, won), (taboo::BROKEN_RULE, broken)]);
        for source in [ImitationSource::SelfPlay, ImitationSource::Endpoint] {
            let judged = |counts: &Tally| judged(counts, source);
            assert!(judged(&broken(3, 297)).unwrap().starts_with("3 of 300 games (1.0%) were won"));
            let said = judged(&broken(2, 298)).unwrap_err();
            assert!(said.contains("2 of 300 games (0.7%)") && said.contains("broke the rules in 298"), "{said}");
            assert!(said.contains("imitation.temperature") && said.contains("more imitation.games"), "{said}");
            assert!(judged(&broken(0, 5)).is_err() && judged(&broken(1, 5)).is_ok());
            assert!(judged(&counts(&[(taboo::RIGHT_GUESS, 1), (taboo::SAID_UNKNOWINGLY, 1)])).is_ok());
            assert!(judged(&Tally::new(&taboo::LABELS)).is_err());
        }
    }
}
