//! Any order of sequences that come, grow, share, wait and go: what a page holds is always what its readers expect.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use super::*;
use crate::generate::budget::MemoryBudget;
use crate::ops::paged_attention::append;

/// One layer, one head of size 2.
fn model() -> LlamaConfig {
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

/// What the key of a token would be: it depends on all tokens up to it.
fn mark(tokens: &[u32]) -> f32 {
    let mut hash = DefaultHasher::new();
    tokens.hash(&mut hash);
    (hash.finish() % (1 << 24)) as f32
}

struct Sequence {
    tokens: Vec<u32>,
    cached: Cached,
}

struct Table {
    cache: KvCache,
    sequences: Vec<Sequence>,
    pages: usize,
}

#[derive(Clone, Debug)]
enum Event {
    /// A sequence comes, and gets as far as there is memory.
    Come(Vec<u32>),
    /// One grows by some tokens.
    Grow(usize, Vec<u32>),
    /// One goes.
    Go(usize),
}

impl Table {
    fn new(page_size: usize, pages: usize) -> Self {
        let config = EngineConfig { page_size, pages, ..EngineConfig::with_max_length(&model(), 1, 64, memory()) };
        Self { cache: empty_cache(&config), sequences: Vec::new(), pages }
    }

    /// Plans some tokens of some sequences, and runs the pass: writes every planned token's mark.
    fn pass(&mut self, which: &[usize], most: usize) {
        let mut planned = Vec::new();
        for index in which {
            let Sequence { tokens, cached } = &mut self.sequences[*index];
            self.cache.share(cached, tokens).unwrap();
            assert!(cached.computed < tokens.len(), "the last token is left to compute");
            let (start, end) = (cached.computed, tokens.len().min(cached.computed + most));
            if self.cache.reserve(cached, end) {
                self.cache.fill(cached, tokens, end);
                planned.push((*index, start..end));
            }
        }
        let rows: usize = planned.iter().map(|(_, range)| range.len()).sum();
        let (mut values, mut spans, mut row) = (Vec::new(), Vec::new(), 0);
        for (index, range) in &planned {
            let Sequence { tokens, cached } = &self.sequences[*index];
            for position in range.clone() {
                let mark = mark(&tokens[..=position]);
                values.extend([0.0, 0.0, mark, -mark, mark + 0.5, 0.25]);
            }
            spans.push(Span { rows: row..row + range.len(), position: range.start, pages: &cached.pages });
            row += range.len();
        }
        let qkv = cpu::tensor(values, (rows, 6)).unwrap();
        let plan = self.cache.plan(&spans).unwrap();
        append(&qkv, &self.cache.keys[0], &self.cache.values[0], &plan).unwrap();
        self.cache.computed();
    }

    /// Every computed token of every sequence has its own mark, keys and values alike.
    fn check(&self) {
        let size = self.cache.shape.tokens;
        let keys = self.cache.keys[0].to_vec2::<f32>().unwrap();
        let values = self.cache.values[0].to_vec2::<f32>().unwrap();
        for Sequence { tokens, cached } in &self.sequences {
            assert!(cached.pages.len() * size >= cached.computed);
            for position in 0..cached.computed {
                let (page, slot) = (cached.pages[position / size] as usize, position % size);
                let mark = mark(&tokens[..=position]);
                assert_eq!((keys[page][slot], keys[page][size + slot]), (mark, -mark), "position {position}");
                assert_eq!((values[page][2 * slot], values[page][2 * slot + 1]), (mark + 0.5, 0.25));
            }
        }
        let used: HashSet<PageId> = self.sequences.iter().flat_map(|s| s.cached.pages.iter().copied()).collect();
        assert_eq!(self.cache.available() + used.len(), self.pages, "no page is lost");
        for page in used {
            let users = self.sequences.iter().filter(|s| s.cached.pages.contains(&page)).count();
            assert_eq!(self.cache.pages.users(page), users as u32);
        }
    }

    fn go(&mut self, index: usize) {
        let Sequence { tokens, mut cached } = self.sequences.remove(index);
        self.cache.release(&mut cached, &tokens);
        assert_eq!(cached, Cached::default());
    }
}

/// Few different tokens, so that sequences often begin alike.
fn tokens(most: usize) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(0u32..3, 1..most)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => tokens(20).prop_map(Event::Come),
        4 => (any::<usize>(), tokens(6)).prop_map(|(index, more)| Event::Grow(index, more)),
        2 => any::<usize>().prop_map(Event::Go),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pages_hold_what_their_readers_expect(
        page_size in prop_oneof![Just(1usize), Just(2), Just(4), Just(7)],
        pages in 3usize..30,
        most in 1usize..9,
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut table = Table::new(page_size, pages);
        for event in events {
            let count = table.sequences.len();
            match event {
                Event::Come(tokens) => table.sequences.push(Sequence { tokens, cached: Cached::default() }),
                Event::Grow(index, more) if count > 0 => table.sequences[index % count].tokens.extend(more),
                Event::Go(index) if count > 0 => table.go(index % count),
                _ => {}
            }
            let ready: Vec<usize> = (0..table.sequences.len())
                .filter(|i| table.sequences[*i].cached.computed < table.sequences[*i].tokens.len())
                .collect();
            table.pass(&ready, most);
            table.check();
        }
        while !table.sequences.is_empty() {
            table.go(0);
            table.check();
        }
        prop_assert_eq!(table.cache.available(), pages);
    }
}

fn filled(cache: &mut KvCache, tokens: &[u32]) -> Cached {
    let mut cached = Cached::default();
    cache.share(&mut cached, tokens).unwrap();
    assert!(cache.reserve(&mut cached, tokens.len()));
    cache.fill(&mut cached, tokens, tokens.len());
    cache.computed();
    cached
}

#[test]
fn the_page_used_least_recently_goes_first() {
    let config = EngineConfig { page_size: 2, pages: 4, ..EngineConfig::with_max_length(&model(), 1, 64, memory()) };
    let mut cache = empty_cache(&config);
    for tokens in [[1, 1, 1], [2, 2, 2]] {
        let mut cached = filled(&mut cache, &tokens);
        cache.release(&mut cached, &tokens);
    }
    let found = |cache: &mut KvCache, tokens: &[u32]| {
        let mut cached = Cached::default();
        let found = cache.share_pages(&mut cached, tokens);
        cache.release(&mut cached, tokens);
        found
    };
    // The first is looked at again, so the second is older now; a third takes the second's memory.
    assert_eq!((found(&mut cache, &[2, 2, 2, 2]), found(&mut cache, &[1, 1, 1, 1])), (2, 2));
    let mut third = filled(&mut cache, &[3, 3]);
    cache.release(&mut third, &[3, 3]);
    let mut fourth = filled(&mut cache, &[4, 4, 4]);
    cache.release(&mut fourth, &[4, 4, 4]);
    assert_eq!((found(&mut cache, &[1, 1, 1, 1]), found(&mut cache, &[2, 2, 2, 2])), (2, 0));
}
