//! A step of the engine: the forward pass over scheduled chunks, then sampling and events.

use std::time::Instant;

use candle_core::Tensor;

use super::adapters::AdapterRows;
use super::completion::{FinishReason, RequestId};
use super::engine::{Engine, State};
use super::event::{Event, TokenEvent};
use super::grammar_step;
use super::model_runner::{ForwardOutput, LogitRows};
use super::schedule::{ScheduledChunk, schedule};
use super::sequence::Sequence;
use crate::error::{RequestError, Result};
use spag_ops::paged_attention::Span;
use spag_ops::sample::{self, SampleError, SampleParams, SampledToken, ScoreParams, TokenLogProb};

/// The end of a request.
type Ended = Result<FinishReason, RequestError>;

/// The most likely tokens of a row with their ln p.
type LikelyTokens = Vec<(u32, f32)>;

impl Engine {
    /// Runs one forward pass and returns the events.
    pub(super) fn pass(&mut self) -> Result<Vec<(RequestId, Event)>> {
        let began = Instant::now();
        let chunks = schedule(&mut self.state, &self.config)?;
        self.state.stats.times.schedule += began.elapsed();
        let held = grammar_step::take(&chunks, &mut self.state.running);
        let (output, allowed) = grammar_step::beside(held, || self.forward(&chunks));
        let output = output?;
        let mut events = Vec::new();
        let mut ended = self.record_scores(&chunks, output.scored);
        let failed = grammar_step::give_back(allowed, &mut self.state.running, self.tokenizer.eos_ids());
        ended.extend(failed.into_iter().map(|(at, error)| (self.state.running[at].id, Err(error))));
        self.sample(&chunks, output.logits.as_ref(), &mut ended, &mut events)?;
        let began = Instant::now();
        for (id, end) in ended {
            self.finish(id, end, &mut events);
        }
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(events)
    }

    /// Runs the forward pass over the scheduled chunks.
    fn forward(&mut self, chunks: &[ScheduledChunk]) -> Result<ForwardOutput> {
        let began = Instant::now();
        let State { cache, running, stats, .. } = &mut self.state;
        let (mut ids, mut spans, mut last, mut scored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut classes = Vec::with_capacity(chunks.len());
        let mut adapters = AdapterRows::default();
        // (rows, attended keys) of prompts and of decoding.
        let (mut prompt, mut decode) = ((0usize, 0usize), (0usize, 0usize));
        for chunk in chunks {
            let sequence = &running[chunk.sequence];
            let first = ids.len();
            ids.extend_from_slice(&sequence.tokens[chunk.tokens.clone()]);
            let rows = first..ids.len();
            adapters.push(rows.clone(), sequence.adapter.as_deref());
            let kind = if chunk.tokens.start < sequence.prompt { &mut prompt } else { &mut decode };
            kind.0 += rows.len();
            kind.1 += chunk.tokens.clone().map(|position| position + 1).sum::<usize>();
            spans.push(Span { rows, position: chunk.tokens.start, pages: &sequence.table.pages });
            classes.push(sequence.table.root.class);
            scored.extend(sequence.scored_rows(&chunk.tokens).map(|position| ScoreParams {
                row: first + position - chunk.tokens.start,
                token: sequence.tokens[position + 1],
                top: sequence.config.log_probs.top,
            }));
            if chunk.completes(sequence) && sequence.generates() {
                last.push(ids.len() as u32 - 1);
            }
        }
        let wanted = LogitRows { last: &last, scored: &scored };
        let output = self.runner.forward(&ids, (&spans, &classes), &adapters, &wanted, cache)?;
        cache.mark_computed();
        let all = began.elapsed();
        stats.steps += 1;
        stats.computed_tokens += ids.len() as u64;
        stats.attended_keys += (prompt.1 + decode.1) as u64;
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let prefill = output.attention.mul_f64(share(prompt.1, prompt.1 + decode.1))
            + all.saturating_sub(output.attention).mul_f64(share(prompt.0, ids.len()));
        stats.times.prefill += prefill;
        stats.times.decode += all.saturating_sub(prefill);
        stats.times.attention += output.attention;
        Ok(output)
    }

    /// Stores the prompt log-probabilities computed by a pass. Returns the requests that failed.
    fn record_scores(
        &mut self,
        chunks: &[ScheduledChunk],
        scored: Vec<Result<TokenLogProb, SampleError>>,
    ) -> Vec<(RequestId, Ended)> {
        let (mut scored, mut failed) = (scored.into_iter(), Vec::new());
        for chunk in chunks {
            let sequence = &mut self.state.running[chunk.sequence];
            let rows = sequence.scored_rows(&chunk.tokens).len();
            for row in scored.by_ref().take(rows) {
                match (row, &mut sequence.scores) {
                    (Ok(row), Some(scores)) => scores.push(row),
                    (Ok(_), None) => {}
                    (Err(e), _) => {
                        failed.push((sequence.id, Err(RequestError::of_row(e, self.tokenizer.checkpoint()))));
                    }
                }
            }
        }
        failed
    }

    /// Samples a token for every fully computed sequence, except those in `ended`. Adds the sequences that ended to
    /// `ended`, and reports the tokens of the others.
    fn sample(
        &mut self,
        chunks: &[ScheduledChunk],
        logits: Option<&Tensor>,
        ended: &mut Vec<(RequestId, Ended)>,
        events: &mut Vec<(RequestId, Event)>,
    ) -> Result<()> {
        let began = Instant::now();
        let (running, eos) = (&mut self.state.running, self.tokenizer.eos_ids());
        // Rows of the logits are in chunk order, results in sequence order.
        let mut place = vec![None; running.len()];
        let mut rows = 0;
        for chunk in chunks.iter().filter(|chunk| chunk.completes(&running[chunk.sequence])) {
            place[chunk.sequence] = Some(rows);
            rows += usize::from(running[chunk.sequence].generates());
        }
        let mut ready: Vec<(usize, &mut Sequence)> =
            running.iter_mut().zip(&place).filter_map(|(sequence, row)| row.map(|row| (row, sequence))).collect();
        ready.retain_mut(|(_, sequence)| {
            if !ended.iter().any(|(id, _)| *id == sequence.id) {
                if sequence.streams() {
                    let scores = sequence.unreported_scores();
                    events.extend(scores.map(|scores| (sequence.id, Event::Prompt(scores))));
                }
                if !sequence.generates() {
                    ended.push((sequence.id, Ok(FinishReason::Length)));
                }
            }
            sequence.generates()
        });
        let Some(logits) = logits else { return Ok(()) };
        let mut params = vec![SampleParams::default(); ready.len()];
        for (row, sequence) in &mut ready {
            params[*row] = sequence.sampling_params(eos);
        }
        let chosen = sample::sample(logits, &params)?;
        let mut tops = self::tops(logits, &ready, &chosen)?;
        for (row, sequence) in &mut ready {
            if ended.iter().any(|(id, _)| *id == sequence.id) {
                continue;
            }
            let pushed = match chosen[*row] {
                Ok(choice) => sequence.push(choice, tops[*row].take(), &self.tokenizer),
                Err(e) => Err(RequestError::of_row(e, self.tokenizer.checkpoint())),
            };
            match pushed.transpose() {
                Some(end) => ended.push((sequence.id, end)),
                None if sequence.streams() => {
                    let (id, text) = (sequence.id, sequence.text_delta());
                    let event = |token| (id, Event::Token(TokenEvent { token, text }));
                    events.extend(sequence.last_token().map(event));
                }
                None => {}
            }
        }
        self.state.stats.times.sampling += began.elapsed();
        Ok(())
    }

    /// Removes an ended sequence and reports it.
    fn finish(&mut self, id: RequestId, end: Ended, events: &mut Vec<(RequestId, Event)>) {
        let Some(mut sequence) = self.state.take_running(id) else { return };
        self.state.cache.release(&mut sequence.table, &sequence.tokens);
        let (tokens, streams) = (sequence.tokens.len() - sequence.prompt, sequence.streams());
        let token = if streams { sequence.last_token() } else { None };
        let last = match end.and_then(|finish| sequence.complete(finish, self.version(), &self.tokenizer)) {
            Ok((completion, rest)) => {
                self.state.stats.requests += 1;
                self.state.stats.new_tokens += tokens as u64;
                events.extend(token.map(|token| (id, Event::Token(TokenEvent { token, text: rest }))));
                Event::Finished(completion)
            }
            Err(error) => Event::Failed(error),
        };
        events.push((id, last));
    }
}

/// The most likely tokens in each row of logits, for sequences that request them. `chosen` are the sampled tokens.
fn tops(
    logits: &Tensor,
    ready: &[(usize, &mut Sequence)],
    chosen: &[Result<SampledToken, SampleError>],
) -> Result<Vec<Option<LikelyTokens>>> {
    let mut tops = vec![None; chosen.len()];
    let params = |(row, sequence): &(usize, &mut Sequence)| {
        let (top, choice) = (sequence.config.log_probs.top, chosen[*row].ok()?);
        (top > 0).then_some(ScoreParams { row: *row, token: choice.token, top })
    };
    let params: Vec<ScoreParams> = ready.iter().filter_map(params).collect();
    for (params, scored) in params.iter().zip(sample::score(logits, &params)?) {
        tops[params.row] = scored.ok().map(|scored| scored.top);
    }
    Ok(tops)
}
