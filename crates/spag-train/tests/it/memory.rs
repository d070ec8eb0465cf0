//! What a run on a CPU is planned to need, against what it takes: one process, and ranks that share its state.

use std::path::Path;
use std::sync::Arc;

use crate::HELD;
use serde::{Deserialize, Serialize};
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, Single, TcpGroup, Token};
use spag_io::format_gib;
use spag_model::checkpoint::{LoadOptions, WriteOptions, save_model};
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::{Model, ModelConfig};
use spag_ops::CpuPath;
use spag_tests::{reserve_port, test_process};
use spag_train::{
    Learner, ModelShard, RankMemory, ShardingPlan, Span, TargetModules, TimingConfig, TrainConfig, Trajectory,
    ZeroStage, time_steps_of_rank,
};

/// Tokens of a sequence.
const SEQ: usize = 128;
/// Steps of a case, and micro-batches of each.
const STEPS: usize = 2;
const ACCUMULATION: usize = 2;
/// In the environment of a process that is to try a case, as JSON: the highest mark of a process is that of its whole
/// life, so each case has one of its own.
const CASE: &str = "SPAG_MEMORY_TEST_CASE";
const MARK: &str = "TAKEN ";
/// Memory that each rank's ring adds from what it has received.
const RING: u64 = 256 << 10;
/// The blocks of a thread for packed operands of products in f32.
const BLOCKS_OF_THREAD: u64 = 641 << 10;

/// A model by its shape.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Shape {
    layers: usize,
    vocabulary: usize,
    kv_heads: usize,
    tied: bool,
    family: Family,
}

/// What else the model has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Family {
    Llama,
    /// Heads that are wider together than the hidden size, and are normalised.
    Qwen3,
    /// A normalised head, and no rotation.
    Baichuan,
}

/// The blocks hold nearly all parameters.
const BLOCKS: Shape = Shape { layers: 6, vocabulary: 500, kv_heads: 6, tied: false, family: Family::Llama };
/// Embedding and head hold most of them.
const VOCABULARY: Shape = Shape { layers: 3, vocabulary: 8000, kv_heads: 3, tied: false, family: Family::Llama };
/// As before, and the two are one.
const TIED: Shape = Shape { tied: true, ..VOCABULARY };

impl Shape {
    fn config(self) -> ModelConfig {
        let Self { layers, vocabulary, kv_heads, tied, family } = self;
        let family = match family {
            Family::Llama => r#""max_position_embeddings": 256"#,
            Family::Qwen3 => r#""max_position_embeddings": 256, "model_type": "qwen3", "head_dim": 48"#,
            Family::Baichuan => r#""model_max_length": 256, "model_type": "baichuan""#,
        };
        let json = format!(
            r#"{{"hidden_size": 192, "intermediate_size": 512, "vocab_size": {vocabulary}, "num_hidden_layers": {layers},
                "num_attention_heads": 6, "num_key_value_heads": {kv_heads}, "tie_word_embeddings": {tied}, {family}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }
}

/// A run whose memory is planned and counted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Case {
    shape: Shape,
    bf16: bool,
    recompute: bool,
    /// Blocks whose activations are kept although others are recomputed.
    kept: usize,
    /// Sequences of a micro-batch.
    batch: usize,
    ranks: usize,
    stage: u8,
    /// The learner's attention is exact.
    exact: bool,
    /// An adapter of this rank in all linear layers is trained; its learner's attention is exact.
    lora_r: Option<usize>,
}

impl Case {
    fn of_one_process(shape: Shape, bf16: bool, recompute: bool, batch: usize) -> Self {
        Self { shape, bf16, recompute, kept: 0, batch, ranks: 1, stage: 0, exact: false, lora_r: None }
    }

    fn dtype(self) -> WeightDtype {
        if self.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 }
    }

    fn activations(self) -> Activations {
        if self.recompute { Activations::KeepLast(self.kept) } else { Activations::Keep }
    }

    fn plan(self) -> ShardingPlan {
        ShardingPlan { stage: ZeroStage::try_from(u64::from(self.stage)).unwrap(), ..ShardingPlan::default() }
    }

    /// What all ranks together are planned to need.
    fn planned(self) -> u64 {
        let config = TrainConfig {
            per_device_train_batch_size: self.batch,
            max_length: SEQ,
            bf16: self.bf16,
            lora_r: self.lora_r,
            lora_target_modules: self.lora_r.map_or_else(TargetModules::default, |_| TargetModules::of(["all-linear"])),
            ..TrainConfig::default()
        }
        .with_activations(self.activations());
        let plan = if self.exact { RankMemory::on_cpu_exact } else { RankMemory::on_cpu };
        let memory = plan(&self.shape.config(), &config, self.plan(), self.ranks);
        self.ranks as u64 * (memory.on_device() + self.beside())
    }

    /// What a rank of the test holds that no plan speaks of: the tokens of all ranks' samples, the ring's memory, and the blocks
    /// of its thread.
    fn beside(self) -> u64 {
        let samples = self.batch * ACCUMULATION * STEPS * self.ranks;
        // Four bytes a token, and the rest of a sample.
        let data = (samples * (4 * SEQ + 100)) as u64;
        let in_f32 = !self.bf16 || CpuPath::selected().unwrap() < CpuPath::Avx512Bf16;
        data + if self.ranks > 1 { RING } else { 0 } + if in_f32 { BLOCKS_OF_THREAD } else { 0 }
    }

    /// A folder with the model.
    fn saved_model(self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let model = Model::init(&self.shape.config(), 1).unwrap();
        save_model(&model, dir.path(), WriteOptions::new(self.dtype())).unwrap();
        dir
    }

    /// What all ranks together hold at most.
    fn taken(self, dir: &Path) -> u64 {
        let case = serde_json::to_string(&(self, dir)).unwrap();
        let output = test_process("memory::one_case").env(CASE, case).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let taken = text.lines().find_map(|line| line.split_once(MARK)).map(|(_, number)| number.trim().parse());
        match taken {
            Some(taken) if output.status.success() => taken.unwrap(),
            _ => panic!("{self:?}: {text}\n{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Trains in this process, a rank a thread.
    fn train(self, dir: &Path) {
        let port = reserve_port();
        std::thread::scope(|scope| {
            for rank in 0..self.ranks {
                scope.spawn(move || self.train_rank(dir, rank, port));
            }
        });
    }

    fn learn_exactly(self, shard: ModelShard<'_>) {
        let config = TrainConfig {
            per_device_train_batch_size: self.batch,
            max_length: SEQ,
            bf16: self.bf16,
            lora_r: self.lora_r,
            lora_target_modules: self.lora_r.map_or_else(TargetModules::default, |_| TargetModules::of(["all-linear"])),
            ..TrainConfig::default()
        }
        .with_activations(self.activations());
        let mut learner = Learner::load(shard, &config, STEPS).unwrap().with_exact_attention();
        let token = |row: usize, at: usize| ((row * 31 + at * 7) % self.shape.vocabulary) as u32;
        for _ in 0..STEPS {
            let trajectory = |row| Trajectory {
                row,
                ids: (0..SEQ).map(|at| token(row, at)).collect(),
                spans: vec![Span::new(1..SEQ, 1.0)],
            };
            learner.step(&(0..self.batch * ACCUMULATION).map(trajectory).collect::<Vec<_>>()).unwrap();
        }
    }

    fn train_rank(self, dir: &Path, rank: usize, port: u16) {
        let group: Arc<dyn ProcessGroup> = match self.ranks {
            1 => Arc::new(Single),
            _ => Arc::new(join(rank, self.ranks, port)),
        };
        let options = LoadOptions { dtype: self.dtype(), ..LoadOptions::default() };
        let timing = TimingConfig {
            batch: self.batch,
            seq: SEQ,
            steps: STEPS,
            warmup: 0,
            vocab_size: self.shape.vocabulary,
            seed: 1,
            activations: self.activations(),
            accumulation: ACCUMULATION,
            optim_grad_dtype: WeightDtype::F32,
        };
        // Threads of its own, as a process has them: a rank that waits for others must not hold up theirs.
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let shard = ModelShard { dir, adapter: None, options: &options, plan: self.plan(), group };
        threads.install(|| match self.exact {
            true => self.learn_exactly(shard),
            false => drop(time_steps_of_rank(shard, None, &timing).unwrap()),
        });
    }
}

pub(crate) fn join(rank: usize, ranks: usize, port: u16) -> TcpGroup {
    let env = LaunchEnv::on_this_machine(rank, ranks, port);
    let token = Some(Token::new("the token of this test").unwrap());
    TcpGroup::join(&env, &JoinOptions { token, ..JoinOptions::default() }).unwrap()
}

/// A case, where this process is to try one.
#[test]
fn one_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let (case, dir): (Case, std::path::PathBuf) = serde_json::from_str(&case).unwrap();
    let before = HELD.allocated();
    case.train(&dir);
    println!("\n{MARK}{}", HELD.max_allocated() - before);
}

/// Tries two cases with the same model: the first takes more than the second, by what is planned.
fn assert_difference_as_planned(more: Case, less: Case) {
    let dir = more.saved_model();
    let (taken, planned) = (more.taken(dir.path()) - less.taken(dir.path()), more.planned() - less.planned());
    let ratio = planned as f64 / taken as f64;
    assert!((ratio - 1.0).abs() < 0.1, "{more:?} and {less:?}: {planned} bytes planned, {taken} taken");
}

/// Tries cases, whose plans may differ from what is taken by so much of it.
fn assert_as_planned(cases: &[Case], tolerance: f64) {
    let mut wrong = Vec::new();
    for case in cases {
        let dir = case.saved_model();
        let (taken, planned) = (case.taken(dir.path()), case.planned());
        assert!(case.beside() * case.ranks as u64 * 20 < planned, "{case:?}: what is beside the plan is not small");
        let ratio = planned as f64 / taken as f64;
        let line = format!("{case:?}: {} planned, {} taken, {ratio:.3}", format_gib(planned), format_gib(taken));
        eprintln!("{line}");
        if (ratio - 1.0).abs() > tolerance {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_process_takes_what_is_planned() {
    let case = Case::of_one_process;
    let grouped = Shape { kv_heads: 2, ..BLOCKS };
    let wide = Shape { vocabulary: 12_000, ..BLOCKS };
    let cases = [
        case(BLOCKS, false, true, 4),
        case(grouped, false, true, 8),
        case(BLOCKS, true, true, 10),
        case(Shape { vocabulary: 2000, ..BLOCKS }, false, false, 8),
        case(wide, false, true, 12),
        case(wide, false, false, 12),
        case(Shape { kv_heads: 3, ..wide }, true, false, 20),
        Case { kept: 2, ..case(BLOCKS, false, true, 4) },
        Case { kept: 4, ..case(grouped, true, true, 10) },
    ];
    assert_as_planned(&cases, 0.1);
}

#[test]
fn models_of_other_families_take_what_is_planned() {
    let qwen3 = Shape { kv_heads: 2, family: Family::Qwen3, ..BLOCKS };
    let baichuan = Shape { vocabulary: 12_000, family: Family::Baichuan, ..BLOCKS };
    let mut cases = Vec::new();
    for (shape, batch) in [(qwen3, 8), (baichuan, 12)] {
        for (bf16, recompute) in [(false, false), (false, true), (true, true)] {
            cases.push(Case::of_one_process(shape, bf16, recompute, batch));
        }
    }
    assert_as_planned(&cases, 0.1);
}

/// Exact attention takes more than the fastest, by what is planned.
#[test]
fn exact_attention_takes_what_is_planned() {
    let grouped = Shape { kv_heads: 2, ..BLOCKS };
    let wide = Shape { vocabulary: 12_000, ..BLOCKS };
    let case = |shape, exact| Case { exact, ..Case::of_one_process(shape, true, true, 10) };
    let cases = [BLOCKS, grouped, wide].map(|shape| case(shape, true));
    assert_as_planned(&cases, 0.1);
    // Slower paths of the processor have no arithmetic of bf16, and widen always.
    if CpuPath::selected().unwrap() >= CpuPath::Avx512Bf16 {
        for exact in cases {
            assert_difference_as_planned(exact, case(exact.shape, false));
        }
    }
    // In f32 nothing is widened.
    let plans = [false, true].map(|exact| Case { bf16: false, ..case(BLOCKS, exact) }.planned());
    assert_eq!(plans[0], plans[1]);
}

/// The weights of the model are there once, without gradients and optimizer state.
#[test]
fn adapters_take_what_is_planned() {
    let case = |shape, bf16, recompute, batch, lora_r| Case {
        exact: true,
        lora_r,
        ..Case::of_one_process(shape, bf16, recompute, batch)
    };
    let mut cases = Vec::new();
    for (shape, batch) in [(BLOCKS, 4), (Shape { kv_heads: 2, ..BLOCKS }, 8)] {
        for (bf16, recompute) in [(false, false), (false, true), (true, true)] {
            cases.push(case(shape, bf16, recompute, batch, Some(8)));
        }
    }
    assert_as_planned(&cases, 0.1);
    // What the head takes is planned with the same error for both.
    let wide = |lora_r| case(Shape { vocabulary: 12_000, ..BLOCKS }, false, true, 12, lora_r);
    assert_difference_as_planned(wide(None), wide(Some(8)));
}

/// Every stage, with and without recomputation.
fn stages(shape: Shape, ranks: usize, bf16: bool) {
    let mut cases = Vec::new();
    for stage in 0..=3 {
        for recompute in [false, true] {
            cases.push(Case { shape, bf16, recompute, kept: 0, batch: 2, ranks, stage, exact: false, lora_r: None });
        }
    }
    assert_as_planned(&cases, 0.05);
}

#[test]
fn two_ranks_take_what_is_planned() {
    stages(BLOCKS, 2, false);
    stages(VOCABULARY, 2, false);
    stages(BLOCKS, 2, true);
}

#[test]
fn four_ranks_take_what_is_planned() {
    stages(BLOCKS, 4, false);
    stages(VOCABULARY, 4, false);
    stages(VOCABULARY, 4, true);
}

#[test]
fn ranks_with_a_tied_head_take_what_is_planned() {
    stages(TIED, 2, false);
}
