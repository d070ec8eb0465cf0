//! Asks a model the missing rows, through one engine whose batch is kept full.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rayon::prelude::*;
use spag_game::{ReasoningEnd, game_seed};
use spag_io::{Progress, PromptEnd, ReasoningRule};
use spag_model::generate::{Event, LogProbs, Prompt, PromptRange, ReasoningBudget, RequestId, Sampling};
use spag_model::{Completion, Engine, Generate, GenerationConfig, Request};

use crate::config::TaskConfig;
use crate::encode::{Scored, TextEncoder};
use crate::error::{Error, Result};
use crate::reasoning::AskReasoning;
use crate::record::{Answered, Record};
use crate::task::{Question, Task};

/// Rows that are encoded at once.
const BLOCK: usize = 256;
/// Tokens of a generated answer of a task that sets none.
pub(crate) const NEW_TOKENS: usize = 256;

/// A row in work, or a sample of it.
struct Open {
    task: usize,
    row: usize,
    sample: usize,
    /// The parts that are not submitted.
    waiting: Vec<(usize, Scored)>,
    /// Of each part: ln p, and whether the model would generate it.
    scores: Vec<Option<(f64, bool)>>,
    /// How the context ends, of an answer that is generated.
    end: PromptEnd,
    said: Said,
    left: usize,
    cut: bool,
}

/// What is to be answered.
struct Place {
    task: usize,
    row: usize,
    sample: usize,
}

/// What a row's answer says.
#[derive(Default)]
struct Said {
    text: Option<String>,
    reasoning: Option<String>,
    reasoning_end: Option<ReasoningEnd>,
}

/// Scores rows of several tasks.
pub(crate) struct Scorer<'a> {
    pub(crate) tasks: &'a [Task],
    pub(crate) records: &'a mut [Record],
    pub(crate) engine: &'a mut Engine,
    pub(crate) bos: Option<u32>,
    pub(crate) reasoning: &'a AskReasoning,
}

impl Scorer<'_> {
    /// Answers all missing rows. Each answer is on disk before the next step.
    ///
    /// The first choice of a row is submitted before the others, which then find its context in the cache: pages that are not
    /// full are shared once they are computed.
    pub(crate) fn run(mut self, name: &str, progress: &mut dyn Progress) -> Result<()> {
        let missing: Vec<Place> = self
            .records
            .iter()
            .enumerate()
            .flat_map(|(task, record)| record.missing().map(move |(row, sample)| Place { task, row, sample }))
            .collect();
        let total: usize = self.tasks.iter().map(|task| task.rows() * task.config.samples()).sum();
        let before = total - missing.len();
        progress.resume(name, total as u64, before as u64);
        let mut done = before;
        let ahead = self.engine.config().max_running + self.engine.config().max_running / 2;
        let mut blocks = missing.chunks(BLOCK);
        let mut encoded: VecDeque<Open> = VecDeque::new();
        let mut rows: HashMap<usize, Open> = HashMap::new();
        let mut requests: HashMap<RequestId, (usize, usize)> = HashMap::new();
        // Parts whose context is computed.
        let mut ready: VecDeque<(usize, usize, Scored)> = VecDeque::new();
        let mut next = 0;
        loop {
            while self.engine.unfinished() < ahead {
                if let Some((id, part, scored)) = ready.pop_front() {
                    self.submit(id, part, scored, &rows, &mut requests)?;
                    continue;
                }
                if encoded.is_empty()
                    && let Some(block) = blocks.next()
                {
                    encoded = self.encode(block)?.into();
                }
                let Some(mut row) = encoded.pop_front() else { break };
                let first = if row.waiting.is_empty() { None } else { Some(row.waiting.remove(0)) };
                rows.insert(next, row);
                if let Some((part, scored)) = first {
                    self.submit(next, part, scored, &rows, &mut requests)?;
                }
                next += 1;
            }
            if self.engine.unfinished() == 0 {
                break;
            }
            for (request, event) in self.engine.step()? {
                let completion = match event {
                    Event::Finished(completion) => completion,
                    Event::Failed(error) => return Err(spag_model::Error::from(error).into()),
                    Event::Prompt(_) | Event::Token(_) => continue,
                };
                let Some((id, part)) = requests.remove(&request) else { continue };
                let Some(row) = rows.get_mut(&id) else { continue };
                row.finish(part, completion, &self.reasoning.rule);
                ready.extend(row.waiting.drain(..).map(|(part, scored)| (id, part, scored)));
                if row.left == 0
                    && let Some(row) = rows.remove(&id)
                {
                    let task = row.task;
                    self.records[task].add(row.answered())?;
                    done += 1;
                    progress.advance(done as u64, self.tasks[task].name());
                }
            }
        }
        progress.end();
        Ok(())
    }

    /// The tokens of rows.
    fn encode(&self, block: &[Place]) -> Result<Vec<Open>> {
        let config = self.engine.config();
        let (tasks, reasoning) = (self.tasks, self.reasoning);
        let encoder = TextEncoder { tokenizer: self.engine.tokenizer(), bos: self.bos, max_length: config.max_length };
        block
            .par_iter()
            .map(|Place { task, row, sample }| {
                let asked = &tasks[*task];
                let item = &asked.items[*row];
                let wrong = |reason: String| Error::Row {
                    path: asked.path.clone(),
                    row: item.row,
                    task: asked.name().to_owned(),
                    reason,
                };
                let end = match &item.question {
                    Question::Generated { context, .. } => reasoning.end_of(context),
                    _ => PromptEnd::Plain,
                };
                let parts = match &item.question {
                    Question::Choice { pairs, .. } => {
                        let pairs = pairs.iter().map(|(context, continuation)| encoder.pair(context, continuation));
                        pairs.collect::<spag_model::Result<Option<Vec<_>>>>()
                    }
                    Question::Continuation { context, continuation } => {
                        encoder.pair(context, continuation).map(|pair| pair.map(|pair| vec![pair]))
                    }
                    Question::Rolling { text } => {
                        encoder.windows(text).map(|parts| Some(parts).filter(|p| !p.is_empty()))
                    }
                    Question::Generated { context, .. } => {
                        let new = generation(&asked.config, reasoning, end).max_completion_tokens();
                        if new >= config.max_length {
                            let length = config.max_length;
                            return Err(wrong(format!(
                                "an answer of {new} tokens, reasoning included, leaves no room for a prompt in {length} tokens; \
                                 lower max_new_tokens"
                            )));
                        }
                        encoder.prompt(context, new).map(|prompt| Some(vec![prompt]))
                    }
                };
                let parts = parts.map_err(|error| wrong(error.to_string()))?;
                let parts = parts.ok_or_else(|| wrong("there are no tokens to score".into()))?;
                let too_long = |part: &&Scored| part.tokens.len() > config.max_length + 1;
                if let Some(part) = parts.iter().find(too_long) {
                    let (tokens, length) = (part.tokens.len(), config.max_length);
                    return Err(wrong(format!(
                        "{tokens} tokens are to be scored, and the model sees {length}; raise --max_length"
                    )));
                }
                Ok(Open {
                    task: *task,
                    row: *row,
                    sample: *sample,
                    cut: parts.iter().any(|part| part.cut > 0),
                    scores: vec![None; parts.len()],
                    left: parts.len(),
                    end,
                    said: Said::default(),
                    waiting: parts.into_iter().enumerate().collect(),
                })
            })
            .collect()
    }

    /// The number of an answer among all of its task.
    fn number(&self, row: &Open) -> usize {
        row.row * self.tasks[row.task].config.samples() + row.sample
    }

    fn submit(
        &mut self,
        id: usize,
        part: usize,
        scored: Scored,
        rows: &HashMap<usize, Open>,
        requests: &mut HashMap<RequestId, (usize, usize)>,
    ) -> Result<()> {
        let (task, end, number) =
            rows.get(&id).map_or((0, PromptEnd::Plain, 0), |row| (row.task, row.end, self.number(row)));
        let config = if scored.scored.is_empty() {
            generation(&self.tasks[task].config, self.reasoning, end)
        } else {
            let log_probs = LogProbs { prompt: Some(PromptRange::Positions(scored.scored)), top: 1 };
            GenerationConfig { max_new_tokens: 0, log_probs, ..GenerationConfig::default() }
        };
        let seed = game_seed(self.tasks[task].config.seed.unwrap_or(0), number);
        let request = Request { prompt: Prompt::Tokens(scored.tokens), seed, config: Arc::new(config) };
        let submitted = self.engine.submit(request).map_err(spag_model::Error::from)?;
        requests.insert(submitted, (id, part));
        Ok(())
    }
}

/// How an answer to a task is generated after a context that ends so.
fn generation(asked: &TaskConfig, reasoning: &AskReasoning, end: PromptEnd) -> GenerationConfig {
    GenerationConfig {
        max_new_tokens: asked.max_new_tokens.unwrap_or(NEW_TOKENS),
        stop_strings: asked.until.clone(),
        reasoning: reasoning.budget.clone().map(|budget| ReasoningBudget { prompt: end, ..budget }),
        sampling: match asked.temperature.filter(|_| asked.is_sampled()) {
            Some(temperature) => Sampling::random(temperature, 0, asked.top_p),
            None => Sampling::Greedy,
        },
        ..GenerationConfig::default()
    }
}

impl Open {
    fn finish(&mut self, part: usize, completion: Completion, rule: &ReasoningRule) {
        self.left -= 1;
        match completion.prompt_log_probs {
            Some(tokens) => {
                let mut sum = (0.0, true);
                for token in tokens.iter().flatten() {
                    sum.0 += f64::from(token.log_prob);
                    sum.1 &= token.top.first().is_some_and(|best| best.0 == token.token);
                }
                self.scores[part] = Some(sum);
            }
            None => {
                let split = rule.split(&completion.text, self.end);
                self.said = Said {
                    text: Some(split.utterance.unwrap_or_default()),
                    reasoning: split.reasoning,
                    reasoning_end: match &completion.reasoning {
                        tokens if tokens.is_unfinished => Some(ReasoningEnd::Unfinished),
                        tokens if !tokens.forced.is_empty() => Some(ReasoningEnd::Forced),
                        _ => None,
                    },
                };
            }
        }
    }

    fn answered(self) -> Answered {
        let Said { text, reasoning, reasoning_end } = self.said;
        let scores = self.scores.into_iter().flatten().collect();
        Answered { row: self.row, sample: self.sample, scores, text, reasoning, reasoning_end, cut: self.cut }
    }
}
