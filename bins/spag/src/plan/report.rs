//! What a plan says, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use spag_io::format_gib;
use spag_model::{
    Computer, GenerationMemory, GenerationMemorySettings, LlamaConfig, OptimizerPlace, ParameterPlace, RankMemory,
    Sharding, Spread,
};

use super::hardware::{Assumptions, Figures};
use super::settings::{Choice, Settings};
use super::time::{StepTime, format_name};

const GIB: f64 = (1u64 << 30) as f64;
/// Prompt tokens of a forward pass while playing, as the engine has it by default.
const STEP_TOKENS: usize = 512;

/// A flag that saves memory, and what it changes.
type Change = (&'static str, fn(&mut Settings, &mut Choice));

/// One stage with its offloads.
pub(super) struct Row {
    pub(super) choice: Choice,
    pub(super) memory: RankMemory,
    pub(super) time: StepTime,
    /// GiB of the device that are missing, or 0.
    pub(super) missing: f64,
    /// GiB of the host that are missing, or 0.
    pub(super) missing_on_host: f64,
}

impl Row {
    fn fits(&self) -> bool {
        self.missing == 0.0 && self.missing_on_host == 0.0
    }
}

/// The whole plan.
pub(super) struct Report<'a> {
    pub(super) model: &'a LlamaConfig,
    pub(super) remark: Option<&'a str>,
    pub(super) settings: &'a Settings,
    pub(super) gpu: Figures,
    pub(super) assumed: Assumptions,
}

#[derive(Serialize)]
struct Playing {
    weights: u64,
    bytes_per_token: u64,
    work: u64,
    /// Games of the longest length that fit beside the weights.
    games: u64,
}

impl Report<'_> {
    fn usable(&self) -> f64 {
        (self.settings.gpu_memory - self.assumed.driver_gib).max(0.0)
    }

    pub(super) fn row(&self, settings: &Settings, choice: Choice) -> Row {
        let spread = Spread {
            ranks: settings.gpus,
            sharding: choice.sharding,
            parameters: choice.parameters,
            computer: Computer::Gpu,
        };
        let memory = RankMemory::new(self.model, &settings.training(choice.optimizer), &spread);
        let over = |needed: f64, there: f64| if needed > there { needed - there } else { 0.0 };
        let per_host = memory.on_host() as f64 / GIB * settings.on_a_host() as f64;
        Row {
            choice,
            memory,
            time: StepTime::new(self.model, settings, &choice, &self.gpu, &self.assumed),
            missing: over(memory.on_device() as f64 / GIB, self.usable()),
            missing_on_host: settings.host_memory.map_or(0.0, |there| over(per_host, there)),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let choices = self.settings.choice.map_or_else(Choice::all, |choice| vec![choice]);
        choices.into_iter().map(|choice| self.row(self.settings, choice)).collect()
    }

    /// The fastest that fits; of several alike, the one that needs least of the host, then least of the device.
    fn best<'r>(&self, rows: &'r [Row]) -> Option<&'r Row> {
        let rank = |row: &&Row| (row.memory.on_host(), row.memory.on_device());
        let order = |a: &&Row, b: &&Row| a.time.step.total_cmp(&b.time.step).then(rank(a).cmp(&rank(b)));
        rows.iter().filter(|row| row.fits()).min_by(order)
    }

    /// What to change where nothing fits: each flag with what a GPU would need then, all that came before included.
    fn advice(&self, row: &Row) -> String {
        let (mut settings, mut choice) = (self.settings.clone(), row.choice);
        let mut needed = row.memory.on_device();
        let mut steps = Vec::new();
        let changes: [Change; 6] = [
            ("--gradient_checkpointing True", |settings, _| settings.gradient_checkpointing = true),
            ("--bf16 True", |settings, _| settings.bf16 = true),
            ("--zero_stage 3", |_, choice| choice.sharding = Sharding::Parameters),
            ("--offload_optimizer cpu", |_, choice| choice.optimizer = OptimizerPlace::Host),
            ("--offload_param cpu", |_, choice| {
                if choice.sharding == Sharding::Parameters {
                    choice.parameters = ParameterPlace::Host;
                }
            }),
            ("--per_device_train_batch_size 1 with more --gradient_accumulation_steps", |settings, _| {
                settings.per_device_train_batch_size = 1;
            }),
        ];
        for (flag, change) in changes {
            if needed as f64 / GIB <= self.usable() {
                break;
            }
            let (mut changed, mut moved) = (settings.clone(), choice);
            change(&mut changed, &mut moved);
            let now = self.row(&changed, moved).memory.on_device();
            if now < needed {
                steps.push(format!("{flag} ({})", format_gib(now)));
                (settings, choice, needed) = (changed, moved, now);
            }
        }
        let last = "more GPUs, a shorter --max_length or a GPU with more memory";
        match (steps.is_empty(), needed as f64 / GIB <= self.usable()) {
            (true, _) => format!("take {last}"),
            (false, true) => format!("change, one after another: {}", steps.join(", ")),
            (false, false) => format!("change, one after another: {}, and take {last}", steps.join(", ")),
        }
    }

    fn playing(&self) -> Playing {
        let settings = |games: usize| GenerationMemorySettings {
            dtype: self.settings.dtype(),
            cached_tokens: games.saturating_mul(self.settings.max_length),
            running: games,
            step_tokens: STEP_TOKENS,
        };
        let none = GenerationMemory::new(self.model, &settings(0));
        let one = GenerationMemory::new(self.model, &settings(1));
        let room = self.usable() * GIB - none.total() as f64;
        Playing {
            weights: none.parameters,
            bytes_per_token: GenerationMemory::per_token(self.model, self.settings.dtype()),
            work: one.block + one.logits,
            games: (room.max(0.0) / (one.total() - none.total()).max(1) as f64) as u64,
        }
    }

    fn assumptions(&self) -> Vec<String> {
        let (gpu, assumed) = (&self.gpu, &self.assumed);
        let giga = |bytes: f64| format!("{:.0} GB/s", bytes / 1e9);
        vec![
            format!(
                "published for {}: {:.0} TFLOP/s in {}, memory {}, links between GPUs {} each way, to the host {} each way",
                gpu.name,
                gpu.flops(self.settings.dtype()) / 1e12,
                format_name(self.settings.dtype()),
                giga(gpu.memory_bytes),
                giga(gpu.link_bytes),
                giga(gpu.host_link_bytes),
            ),
            format!(
                "assumed: {:.0}% of the FLOP/s, {:.0}% of the memory's and {:.0}% of the links' bandwidth are reached",
                100.0 * assumed.flops_share,
                100.0 * assumed.memory_share,
                100.0 * assumed.link_share
            ),
            format!(
                "assumed: {} between machines (--network), {} of a host's memory for the optimizer, {} GiB of a GPU for \
                 its driver",
                giga(assumed.network_bytes),
                giga(assumed.host_memory_bytes),
                assumed.driver_gib
            ),
            "assumed: every sequence is --max_length long; communication runs beside computing, and the slower one \
             counts; updates run beside nothing"
                .into(),
        ]
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows();
        let best = self.best(&rows).map(|row| row.choice);
        let of = |row: &Row| {
            let named =
                |rows: &[(&str, u64)]| rows.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes))).collect();
            json!({
                "zero_stage": row.choice.sharding.stage(),
                "offload_optimizer": row.choice.optimizer == OptimizerPlace::Host,
                "offload_param": row.choice.parameters == ParameterPlace::Host,
                "fits": row.fits(),
                "recommended": best == Some(row.choice),
                "gpu_bytes": row.memory.on_device(),
                "gpu": Value::Object(named(&row.memory.rows())),
                "host_bytes_per_gpu": row.memory.on_host(),
                "host_bytes": row.memory.on_host() * self.settings.on_a_host() as u64,
                "host": Value::Object(named(&row.memory.host_rows())),
                "seconds": row.time,
            })
        };
        json!({
            "settings": self.settings,
            "parameters": spag_model::Layout::new(self.model).len(),
            "remark": self.remark,
            "plans": rows.iter().map(of).collect::<Vec<_>>(),
            "playing": self.playing(),
            "gpu_figures": self.gpu,
            "assumed": self.assumed,
        })
    }

    pub(super) fn text(&self) -> String {
        let settings = self.settings;
        let mut out = format!(
            "{}: {:.2} billion parameters, {}\n{} × {}, {} GiB each{}\n{} × {} tokens a micro-batch, {} micro-batches a step, {}\n",
            settings.model.display(),
            spag_model::Layout::new(self.model).len() as f64 / 1e9,
            format_name(settings.dtype()),
            settings.gpus,
            self.gpu.name,
            settings.gpu_memory,
            settings.host_memory.map(|memory| format!("; {memory} GiB a host")).unwrap_or_default(),
            settings.per_device_train_batch_size,
            settings.max_length,
            settings.gradient_accumulation_steps,
            if settings.gradient_checkpointing { "activations computed again" } else { "activations kept" },
        );
        if let Some(remark) = self.remark {
            let _ = writeln!(out, "{remark}");
        }
        let rows = self.rows();
        let best = self.best(&rows);
        let detailed = best.or_else(|| rows.iter().min_by(|a, b| a.missing.total_cmp(&b.missing)));
        if rows.len() > 1 {
            out.push_str(&self.table(&rows, best));
        }
        if let Some(row) = detailed {
            out.push_str(&self.details(row, best.is_some()));
        }
        out.push_str(&self.playing_text());
        for line in self.assumptions() {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    fn table(&self, rows: &[Row], best: Option<&Row>) -> String {
        let mut out = String::from("\nstage  optimizer  parameters      GPU GiB  host GiB  s/step  fits\n");
        for row in rows {
            let place = |host: bool| if host { "host" } else { "device" };
            let mark = match (row.fits(), best.is_some_and(|best| best.choice == row.choice)) {
                (true, true) => "yes, the fastest",
                (true, false) => "yes",
                (false, _) => "no",
            };
            let _ = writeln!(
                out,
                "{:<5}  {:<9}  {:<10}  {:>11.2}  {:>8.1}  {:>6.2}  {mark}",
                row.choice.sharding.stage(),
                place(row.choice.optimizer == OptimizerPlace::Host),
                place(row.choice.parameters == ParameterPlace::Host),
                row.memory.on_device() as f64 / GIB,
                row.memory.on_host() as f64 / GIB * self.settings.on_a_host() as f64,
                row.time.step,
            );
        }
        out
    }

    fn details(&self, row: &Row, fits: bool) -> String {
        let flags = row.choice.flags();
        let mut out = match fits {
            true => format!("\n{flags} fits: on each GPU\n"),
            false => format!("\n{flags} does not fit: on each GPU\n"),
        };
        let _ = writeln!(out, "{}", row.memory);
        let hosts = self.settings.on_a_host() as u64;
        if row.memory.on_host() > 0 {
            let _ = writeln!(out, "on each host, for {hosts} GPUs");
            for (name, bytes) in row.memory.host_rows().into_iter().filter(|(_, bytes)| *bytes > 0) {
                let _ = writeln!(out, "  {name:<20} {:>12}", format_gib(bytes * hosts));
            }
        }
        if row.missing > 0.0 {
            let _ = writeln!(out, "{:.2} GiB are missing on each GPU; {}", row.missing, self.advice(row));
        }
        if row.missing_on_host > 0.0 {
            let _ = writeln!(
                out,
                "{:.2} GiB are missing on each host; take more hosts, or offload less",
                row.missing_on_host
            );
        }
        let time = &row.time;
        let _ = writeln!(
            out,
            "a step takes about {:.2} s ({:.0} tokens/s in all): computing {:.2} s, links {:.2} s, links to the host {:.2} s, \
             update {:.2} s",
            time.step, time.tokens_per_second, time.compute, time.links, time.host_links, time.update
        );
        out
    }

    fn playing_text(&self) -> String {
        let playing = self.playing();
        format!(
            "\nplaying, each GPU for itself: weights {}, keys and values {} KiB a token, {} at work; room for {} games of {} \
             tokens\n\n",
            format_gib(playing.weights),
            playing.bytes_per_token / 1024,
            format_gib(playing.work),
            playing.games,
            self.settings.max_length
        )
    }
}
