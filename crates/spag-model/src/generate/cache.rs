//! The cache of keys and values: one slot a running sequence, and what an idle slot still holds.

use candle_core::{DType, Device, Tensor};

use crate::config::LlamaConfig;
use crate::error::Result;

/// One sequence's share of the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Tokens whose keys and values are in the cache, in order.
    pub(crate) tokens: Vec<u32>,
    /// When the slot was last given up; the oldest is overwritten first.
    pub(crate) released: u64,
}

/// Keys and values of every layer for a fixed number of slots.
pub(crate) struct Cache {
    pub(crate) keys: Vec<Tensor>,
    pub(crate) values: Vec<Tensor>,
    pub(crate) slots: Vec<Slot>,
    /// Indices of idle slots.
    idle: Vec<usize>,
    capacity: usize,
    clock: u64,
}

impl Cache {
    /// `slots` sequences of up to `capacity` tokens.
    pub(crate) fn new(config: &LlamaConfig, slots: usize, capacity: usize) -> Result<Self> {
        let zeros = || -> candle_core::Result<Vec<Tensor>> {
            (0..config.num_hidden_layers)
                .map(|_| Tensor::zeros((slots * capacity, config.kv_size()), DType::F32, &Device::Cpu))
                .collect()
        };
        let idle = (0..slots).rev().collect();
        Ok(Self { keys: zeros()?, values: zeros()?, slots: vec![Slot::default(); slots], idle, capacity, clock: 0 })
    }

    /// First row of a slot in the layers' tensors.
    pub(crate) fn start(&self, slot: usize) -> usize {
        slot * self.capacity
    }

    /// Takes the idle slot that holds the longest common prefix with `prompt` (the longest idle one if none does), and
    /// keeps that prefix; at least one token of the prompt is left to compute. Returns the slot and the kept length.
    pub(crate) fn acquire(&mut self, prompt: &[u32]) -> Option<(usize, usize)> {
        let usable = prompt.len().saturating_sub(1);
        let shared = |slot: &Slot| slot.tokens.iter().zip(&prompt[..usable]).take_while(|(a, b)| a == b).count();
        let best = (0..self.idle.len()).max_by_key(|i| {
            let slot = &self.slots[self.idle[*i]];
            (shared(slot), std::cmp::Reverse(slot.released))
        })?;
        let index = self.idle.swap_remove(best);
        let kept = shared(&self.slots[index]);
        self.slots[index].tokens.truncate(kept);
        Some((index, kept))
    }

    /// Gives a slot up; its contents stay until it is taken again.
    pub(crate) fn release(&mut self, slot: usize) {
        self.clock += 1;
        self.slots[slot].released = self.clock;
        self.idle.push(slot);
    }
}
