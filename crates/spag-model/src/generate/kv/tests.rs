//! Property tests: for every order of allocation, sharing and release, pages hold what their readers expect.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use super::*;
use crate::generate::config::MemoryBudget;
use spag_ops::cpu;
use spag_ops::paged_attention::append;

/// One layer, one head of size 2.
fn model() -> ModelConfig {
    serde_json::from_str(
        r#"{"hidden_size": 2, "intermediate_size": 2, "vocab_size": 9, "num_hidden_layers": 1,
            "num_attention_heads": 1, "max_position_embeddings": 64}"#,
    )
    .unwrap()
}

fn memory() -> MemoryBudget {
    MemoryBudget { bytes: 1 << 20, bytes_per_value: 4 }
}

fn empty_cache(config: &EngineConfig) -> KvCache {
    KvCache::new(&model(), config, DType::F32, &Device::Cpu).unwrap()
}

/// A stand-in for a token's key: depends on all tokens up to it.
fn mark(tokens: &[u32]) -> f32 {
    let mut hash = DefaultHasher::new();
    tokens.hash(&mut hash);
    (hash.finish() % (1 << 24)) as f32
}

struct Sequence {
    tokens: Vec<u32>,
    table: PageTable,
}

struct Harness {
    cache: KvCache,
    sequences: Vec<Sequence>,
    pages: usize,
}

#[derive(Clone, Debug)]
enum Event {
    /// Adds a sequence.
    Add(Vec<u32>),
    /// Appends tokens to a sequence.
    Grow(usize, Vec<u32>),
    /// Releases a sequence.
    Remove(usize),
}

impl Harness {
    fn new(page_size: usize, pages: usize) -> Self {
        let config = EngineConfig { page_size, pages, ..EngineConfig::with_max_length(&model(), 1, 64, memory()) };
        Self { cache: empty_cache(&config), sequences: Vec::new(), pages }
    }

    /// Runs a pass over some sequences: writes the mark of every scheduled token.
    fn pass(&mut self, which: &[usize], most: usize) {
        let mut planned = Vec::new();
        for index in which {
            let Sequence { tokens, table } = &mut self.sequences[*index];
            self.cache.match_prefix(table, tokens).unwrap();
            assert!(table.computed < tokens.len(), "the last token is left to compute");
            let (start, end) = (table.computed, tokens.len().min(table.computed + most));
            if self.cache.allocate(table, end) {
                self.cache.commit(table, tokens, end);
                planned.push((*index, start..end));
            }
        }
        let rows: usize = planned.iter().map(|(_, range)| range.len()).sum();
        let (mut values, mut spans, mut row) = (Vec::new(), Vec::new(), 0);
        for (index, range) in &planned {
            let Sequence { tokens, table } = &self.sequences[*index];
            for position in range.clone() {
                let mark = mark(&tokens[..=position]);
                values.extend([0.0, 0.0, mark, -mark, mark + 0.5, 0.25]);
            }
            spans.push(Span { rows: row..row + range.len(), position: range.start, pages: &table.pages });
            row += range.len();
        }
        let qkv = cpu::tensor(values, (rows, 6)).unwrap();
        let plan = self.cache.plan(&spans, 0).unwrap();
        append(&qkv, &self.cache.keys[0], &self.cache.values[0], &plan).unwrap();
        self.cache.mark_computed();
    }

    /// Checks the marks of all computed tokens, and the reference counts.
    fn check(&self) {
        let size = self.cache.shape.tokens;
        let keys = self.cache.keys[0].to_vec2::<f32>().unwrap();
        let values = self.cache.values[0].to_vec2::<f32>().unwrap();
        for Sequence { tokens, table } in &self.sequences {
            assert!(table.pages.len() * size >= table.computed);
            for position in 0..table.computed {
                let (page, slot) = (table.pages[position / size] as usize, position % size);
                let mark = mark(&tokens[..=position]);
                assert_eq!((keys[page][slot], keys[page][size + slot]), (mark, -mark), "position {position}");
                assert_eq!((values[page][2 * slot], values[page][2 * slot + 1]), (mark + 0.5, 0.25));
            }
        }
        let used: HashSet<PageId> = self.sequences.iter().flat_map(|s| s.table.pages.iter().copied()).collect();
        assert_eq!(self.cache.available() + used.len(), self.pages, "no page is lost");
        for page in used {
            let ref_count = self.sequences.iter().filter(|s| s.table.pages.contains(&page)).count();
            assert_eq!(self.cache.pool.ref_count(page), ref_count as u32);
        }
    }

    fn remove(&mut self, index: usize) {
        let Sequence { tokens, mut table } = self.sequences.remove(index);
        self.cache.release(&mut table, &tokens);
        assert_eq!(table, PageTable::default());
    }
}

/// Few distinct tokens, so that sequences often share prefixes.
fn tokens(most: usize) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(0u32..3, 1..most)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => tokens(20).prop_map(Event::Add),
        4 => (any::<usize>(), tokens(6)).prop_map(|(index, more)| Event::Grow(index, more)),
        2 => any::<usize>().prop_map(Event::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pages_hold_the_tokens_of_their_sequences(
        page_size in prop_oneof![Just(1usize), Just(2), Just(4), Just(7)],
        pages in 3usize..30,
        most in 1usize..9,
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut harness = Harness::new(page_size, pages);
        for event in events {
            let count = harness.sequences.len();
            match event {
                Event::Add(tokens) => harness.sequences.push(Sequence { tokens, table: PageTable::default() }),
                Event::Grow(index, more) if count > 0 => harness.sequences[index % count].tokens.extend(more),
                Event::Remove(index) if count > 0 => harness.remove(index % count),
                _ => {}
            }
            let ready: Vec<usize> = (0..harness.sequences.len())
                .filter(|i| harness.sequences[*i].table.computed < harness.sequences[*i].tokens.len())
                .collect();
            harness.pass(&ready, most);
            harness.check();
        }
        while !harness.sequences.is_empty() {
            harness.remove(0);
            harness.check();
        }
        prop_assert_eq!(harness.cache.available(), pages);
    }
}

fn filled(cache: &mut KvCache, tokens: &[u32]) -> PageTable {
    let mut table = PageTable::default();
    cache.match_prefix(&mut table, tokens).unwrap();
    assert!(cache.allocate(&mut table, tokens.len()));
    cache.commit(&mut table, tokens, tokens.len());
    cache.mark_computed();
    table
}

#[test]
fn least_recently_used_page_is_evicted_first() {
    let config = EngineConfig { page_size: 2, pages: 4, ..EngineConfig::with_max_length(&model(), 1, 64, memory()) };
    let mut cache = empty_cache(&config);
    for tokens in [[1, 1, 1], [2, 2, 2]] {
        let mut table = filled(&mut cache, &tokens);
        cache.release(&mut table, &tokens);
    }
    let found = |cache: &mut KvCache, tokens: &[u32]| {
        let mut table = PageTable::default();
        let found = cache.match_full_pages(&mut table, tokens);
        cache.release(&mut table, tokens);
        found
    };
    // The first prefix is used again, so the second is least recently used and is evicted for the third.
    assert_eq!((found(&mut cache, &[2, 2, 2, 2]), found(&mut cache, &[1, 1, 1, 1])), (2, 2));
    let mut third = filled(&mut cache, &[3, 3]);
    cache.release(&mut third, &[3, 3]);
    let mut fourth = filled(&mut cache, &[4, 4, 4]);
    cache.release(&mut fourth, &[4, 4, 4]);
    assert_eq!((found(&mut cache, &[1, 1, 1, 1]), found(&mut cache, &[2, 2, 2, 2])), (2, 0));
}
