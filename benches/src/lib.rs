//! Criterion benchmarks of every layer: `cargo bench -p spag-benches`.
//!
//! `game` times what knows no tensors (judge, pluraliser, credit), `model` a training step, a decode step and a
//! game, `ops` each op of the model by itself, `gpu` the same on a GPU,
//! `dist` sums over ranks.
