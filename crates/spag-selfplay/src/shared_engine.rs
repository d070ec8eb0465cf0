//! One engine for several players: rows of one batch, such as a policy and an opponent that is another adapter of its model.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spag_model::generate::{Event, GenerationStats, RequestError, RequestId};
use spag_model::{Engine, Generate, Request, Result};

/// A player's part of an engine. A step of one player runs the rows of all; the events of others wait for their own step.
pub struct SharedEngine {
    shared: Arc<Mutex<Shared>>,
    player: usize,
}

struct Shared {
    engine: Engine,
    /// Players so far.
    players: usize,
    /// The players of requests that have not ended.
    owners: HashMap<RequestId, usize>,
    /// Events of players that did not make the step.
    waiting: HashMap<usize, Vec<(RequestId, Event)>>,
}

impl SharedEngine {
    /// The engine, for a first player.
    pub fn new(engine: Engine) -> Self {
        let shared = Shared { engine, players: 1, owners: HashMap::new(), waiting: HashMap::new() };
        Self { shared: Arc::new(Mutex::new(shared)), player: 0 }
    }

    /// The same engine for another player.
    pub fn beside(&self) -> Self {
        let mut shared = self.lock();
        let player = shared.players;
        shared.players += 1;
        Self { shared: self.shared.clone(), player }
    }

    /// Whether both are parts of one engine.
    pub fn is_that_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Calls `f` with the engine. Requests are submitted and stepped through players only.
    pub fn with<R>(&self, f: impl FnOnce(&mut Engine) -> R) -> R {
        f(&mut self.lock().engine)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedEngine {
    /// Requests of a player that is gone must not fill the batch.
    fn drop(&mut self) {
        let mut shared = self.lock();
        let own = |(id, player): (&RequestId, &usize)| (*player == self.player).then_some(*id);
        let open: Vec<RequestId> = shared.owners.iter().filter_map(own).collect();
        for id in open {
            shared.owners.remove(&id);
            shared.engine.abort(id);
        }
        shared.waiting.remove(&self.player);
    }
}

impl Generate for SharedEngine {
    fn submit(&mut self, request: Request) -> Result<RequestId, RequestError> {
        let mut shared = self.lock();
        let id = shared.engine.submit(request)?;
        shared.owners.insert(id, self.player);
        Ok(id)
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Event)>> {
        let shared = &mut *self.lock();
        let waited = shared.waiting.remove(&self.player).unwrap_or_default();
        if !waited.is_empty() {
            return Ok(waited);
        }
        let mut own = Vec::new();
        for (id, event) in shared.engine.step()? {
            let is_last = matches!(event, Event::Finished(_) | Event::Failed(_));
            let owner = if is_last { shared.owners.remove(&id) } else { shared.owners.get(&id).copied() };
            match owner {
                Some(player) if player == self.player => own.push((id, event)),
                Some(player) => shared.waiting.entry(player).or_default().push((id, event)),
                None => {}
            }
        }
        Ok(own)
    }

    fn abort(&mut self, id: RequestId) {
        let mut shared = self.lock();
        shared.owners.remove(&id);
        shared.engine.abort(id);
        if let Some(waiting) = shared.waiting.get_mut(&self.player) {
            waiting.retain(|(other, _)| *other != id);
        }
    }

    /// Those of this player, with events that were not taken yet.
    fn unfinished(&self) -> usize {
        let shared = self.lock();
        let waiting = shared.waiting.get(&self.player).map_or(0, Vec::len);
        waiting + shared.owners.values().filter(|player| **player == self.player).count()
    }

    /// Those of all players.
    fn stats(&self) -> GenerationStats {
        self.lock().engine.stats()
    }
}
