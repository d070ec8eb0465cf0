//! The memory of an on-policy run: a learner with engines beside it, by what is sharded and offloaded.

use crate::{OnlineMemory, OnlineParts, PlannedTraining, RunPlan};
use spag_io::{format_gib, gib};
use spag_model::dtype::WeightDtype;
use spag_model::generate::GenerationMemory;
use spag_selfplay::text_table;
use spag_train::{Beside, Placement, ShardingPlan, ZeroStage};

use super::of_run::Planner;
use super::report::{GIB, Report, Row};
use super::settings::Settings;
use crate::error::Result;

/// Where a learner stores its state, and what is beside it.
struct Place {
    plan: ShardingPlan,
    learner: u64,
    beside: OnlineParts,
    /// Bytes of a host for all its ranks: what is offloaded from GPUs, or everything on CPUs.
    host: u64,
    /// Games of the full length that fit at once; `None` if the device's memory is not known.
    games: Option<u64>,
    verdict: String,
}

impl Planner<'_> {
    /// The table of an on-policy run; nothing for others.
    pub(super) fn on_policy(&self, plan: &RunPlan) -> Result<String> {
        let mut trainings = plan.stages.iter().filter_map(|stage| stage.training.as_ref());
        let (Some(online), Some(training)) = (&self.online, trainings.find(|training| training.on_policy)) else {
            return Ok(String::new());
        };
        let (device, places) = match self.settings(training)? {
            Some(settings) => ("GPU", self.on_gpus(online, training, settings)),
            None => ("rank", self.on_cpus(online, training)),
        };
        let dtype: WeightDtype = self.config.train.config.dtype();
        let of_game = online.max_length() as u64 * GenerationMemory::per_token(self.model, dtype);
        let head = format!(
            "\nGiB of an on-policy rank: its learner, and an engine for {} games at a time of up to {} tokens, {} of keys and \
             values each\n\n",
            online.games(),
            online.max_length(),
            format_gib(of_game),
        );
        let mut columns = vec!["stage", "optimizer", "parameters", "learner", "weights", "keys, values", "temporary"];
        columns.extend(["opponent", "reference", device, "host", "games at once", "fits"]);
        Ok(format!("{head}{}", text_table(&columns, &places.iter().map(Place::row).collect::<Vec<_>>())))
    }

    /// Every placement on the GPUs; what the settings name is marked. If they leave the optimizer's place open, it is that which the
    /// run will choose.
    fn on_gpus(&self, online: &OnlineMemory, training: &PlannedTraining, settings: Settings) -> Vec<Place> {
        // A DeepSpeed file without an offload leaves it open, too.
        let is_open = training.settings.job.offload_optimizer.is_none();
        let plan = settings.plan;
        let settings = Settings { plan: None, ..settings };
        let report = Report::new(self.model, &settings).with_online(Some(online));
        let rows = report.rows();
        let best = report.best(&rows).map(|row| row.plan);
        let chosen = |plan: ShardingPlan, beside: u64| {
            let of_plan = rows.iter().filter(|row| ShardingPlan { optimizer: plan.optimizer, ..row.plan } == plan);
            let mut fitting = of_plan.filter(|row| row.fits() && report.left_by(&row.memory) >= beside);
            fitting.next().map(|row| row.plan)
        };
        let Beside { least, wanted, .. } = online.beside();
        let named = match plan {
            Some(plan) if is_open && plan.optimizer == Placement::Device => {
                chosen(plan, wanted).or_else(|| chosen(plan, least)).or(Some(plan))
            }
            plan => plan,
        };
        let place = |row: &Row| Place {
            plan: row.plan,
            learner: row.memory.on_device(),
            beside: online.parts(&online.engine(report.left_by(&row.memory))),
            host: row.host_bytes,
            games: row.games,
            verdict: match (named == Some(row.plan), best == Some(row.plan)) {
                (true, _) if !row.fits() => format!("NO, as configured; {:.2} missing", row.lacks()),
                _ if !row.fits() => format!("no, {:.2} missing", row.lacks()),
                (true, _) => "yes, as configured".to_owned(),
                (false, true) => "yes, the fastest".to_owned(),
                (false, false) => "yes".to_owned(),
            },
        };
        rows.iter().map(place).collect()
    }

    /// Every stage on CPUs. Whether it fits is known if the host's memory is.
    fn on_cpus(&self, online: &OnlineMemory, training: &PlannedTraining) -> Vec<Place> {
        let machine = self.config.hardware.machine;
        let local = self.ranks.min(machine.gpus_per_node.unwrap_or(8)).max(1) as u64;
        let stages = if self.ranks == 1 { &ZeroStage::ALL[..1] } else { &ZeroStage::ALL[..] };
        let place = |stage: &ZeroStage| {
            let plan = ShardingPlan { stage: *stage, ..ShardingPlan::default() };
            let learner = self.on_cpu(training, plan).on_device();
            let left = machine.host_memory.map(|host| ((host * GIB) as u64 / local).saturating_sub(learner));
            let beside = online.parts(&online.engine(left.unwrap_or(u64::MAX)));
            let least = online.beside().least;
            let verdict = match left {
                None => "–".to_owned(),
                Some(left) if left < least => format!("no, {:.2} missing", gib(least - left)),
                Some(_) => "yes".to_owned(),
            };
            let games = left.map(|left| online.games_that_fit(left));
            Place { plan, learner, beside, host: (learner + beside.total()) * local, games, verdict }
        };
        stages.iter().map(place).collect()
    }
}

impl Place {
    fn row(&self) -> Vec<String> {
        let OnlineParts { engine, opponent, reference } = self.beside;
        let GenerationMemory { parameters, pages, block, logits } = engine;
        let on_device = self.learner + self.beside.total();
        let bytes =
            [self.learner, parameters, pages, block + logits, opponent, reference, on_device, self.host].into_iter();
        let place = |place: Placement| if place == Placement::Host { "host" } else { "device" };
        let mut row = vec![self.plan.stage.number().to_string()];
        row.extend([place(self.plan.optimizer), place(self.plan.parameters)].map(str::to_owned));
        row.extend(bytes.map(|bytes| if bytes == 0 { "–".to_owned() } else { format!("{:.2}", gib(bytes)) }));
        row.push(self.games.map_or("–".to_owned(), |games| games.to_string()));
        row.push(self.verdict.clone());
        row
    }
}
