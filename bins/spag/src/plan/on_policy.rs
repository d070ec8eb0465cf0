//! The memory of an on-policy run: a learner with engines beside it, by what is sharded and offloaded.

use spag_io::{format_gib, gib};
use spag_model::{GenerationMemory, WeightDtype};
use spag_pipeline::{OnlineMemory, PlannedTraining, RunPlan};
use spag_selfplay::text_table;
use spag_train::{Placement, ShardingPlan, ZeroStage};

use super::of_run::Planner;
use super::report::{GIB, Report, Row};
use super::settings::Settings;
use spag_cli::Result;

/// A learner and what it leaves.
struct Place {
    plan: ShardingPlan,
    learner: u64,
    /// Bytes of the host of all its ranks: offloaded on GPUs, all on CPUs.
    host: Host,
    /// Bytes of the device beside the learner; `None` if the device's are not known.
    left: Option<u64>,
    verdict: String,
}

enum Host {
    Offloaded(u64),
    /// So many ranks are on it.
    All(u64),
}

impl Planner<'_> {
    /// The table of an on-policy run; nothing for others.
    pub(super) fn on_policy(&self, plan: &RunPlan) -> Result<String> {
        let mut trainings = plan.stages.iter().filter_map(|stage| stage.training.as_ref());
        let (Some(online), Some(training)) = (&self.online, trainings.find(|training| training.on_policy)) else {
            return Ok(String::new());
        };
        let places = match self.settings(training)? {
            Some(settings) => self.on_gpus(online, settings),
            None => self.on_cpus(online, training),
        };
        let device = if places.iter().any(|place| matches!(place.host, Host::All(_))) { "rank" } else { "GPU" };
        let dtype: WeightDtype = self.config.train.config.dtype();
        let of_game = online.max_length() as u64 * GenerationMemory::per_token(self.model, dtype);
        let head = format!(
            "\nGiB of an on-policy rank: its learner, and an engine for {} games at a time of up to {} tokens, {} of keys and \
             values each\n\n",
            online.games(),
            online.max_length(),
            format_gib(of_game),
        );
        let columns = [
            "stage",
            "optimizer",
            "parameters",
            "learner",
            "weights",
            "keys, values",
            "temporary",
            "opponent",
            "reference",
            device,
            "host",
            "games at once",
            "fits",
        ];
        let rows: Vec<Vec<String>> = places.iter().map(|place| place.row(online)).collect();
        Ok(format!("{head}{}", text_table(&columns, &rows)))
    }

    /// Every placement on the GPUs; what the settings name is marked.
    fn on_gpus(&self, online: &OnlineMemory, settings: Settings) -> Vec<Place> {
        let named = settings.plan;
        let settings = Settings { plan: None, ..settings };
        let report = Report::new(self.model, &settings).with_online(Some(online));
        let rows = report.rows();
        let best = report.best(&rows).map(|row| row.plan);
        let place = |row: &Row| Place {
            plan: row.plan,
            learner: row.memory.on_device(),
            host: Host::Offloaded(row.host_bytes),
            left: Some(report.left_by(&row.memory)),
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

    /// Every stage on CPUs. They fit if the host's memory is given and large enough.
    fn on_cpus(&self, online: &OnlineMemory, training: &PlannedTraining) -> Vec<Place> {
        let machine = self.config.hardware.machine;
        let local = self.ranks.min(machine.gpus_per_node.unwrap_or(8)).max(1) as u64;
        let stages = if self.ranks == 1 { &ZeroStage::ALL[..1] } else { &ZeroStage::ALL[..] };
        let place = |stage: &ZeroStage| {
            let plan = ShardingPlan { stage: *stage, ..ShardingPlan::default() };
            let learner = self.on_cpu(training, plan).on_device();
            let left = machine.host_memory.map(|host| ((host * GIB) as u64 / local).saturating_sub(learner));
            let least = online.beside().least;
            let verdict = match left {
                None => "–".to_owned(),
                Some(left) if left < least => format!("no, {:.2} missing", gib(least - left)),
                Some(_) => "yes".to_owned(),
            };
            Place { plan, learner, host: Host::All(local), left, verdict }
        };
        stages.iter().map(place).collect()
    }
}

impl Place {
    fn row(&self, online: &OnlineMemory) -> Vec<String> {
        let parts = online.parts(&online.engine(self.left.unwrap_or(u64::MAX)));
        let GenerationMemory { parameters, pages, block, logits } = parts.engine;
        let on_device = self.learner + parts.total();
        let host = match self.host {
            Host::Offloaded(bytes) => bytes,
            Host::All(ranks) => on_device * ranks,
        };
        let place = |place: Placement| if place == Placement::Host { "host" } else { "device" };
        let bytes = [self.learner, parameters, pages, block + logits, parts.opponent, parts.reference, on_device, host];
        let games = self.left.map_or("–".to_owned(), |left| online.games_that_fit(left).to_string());
        let mut row = vec![self.plan.stage.number().to_string()];
        row.extend([place(self.plan.optimizer), place(self.plan.parameters)].map(str::to_owned));
        row.extend(bytes.map(|bytes| if bytes == 0 { "–".to_owned() } else { format!("{:.2}", gib(bytes)) }));
        row.extend([games, self.verdict.to_owned()]);
        row
    }
}
