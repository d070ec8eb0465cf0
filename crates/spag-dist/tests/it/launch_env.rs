//! Environments of all launchers, and errors for invalid ones.

use spag_dist::{DEFAULT_PORT, Error, LaunchEnv, Launcher, Rendezvous, Result};
use spag_io::Classify;

fn detect(variables: &[(&str, &str)]) -> Result<LaunchEnv> {
    LaunchEnv::detect_with(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
}

const TORCH: [(&str, &str); 5] =
    [("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "6000")];

fn torch_error(name: &str, value: Option<&str>) -> Error {
    let mut variables: Vec<_> = TORCH.into_iter().filter(|(key, _)| *key != name).collect();
    variables.extend(value.map(|value| (name, value)));
    detect(&variables).unwrap_err()
}

#[test]
fn empty_environment_is_one_process() {
    assert_eq!(detect(&[]).unwrap(), LaunchEnv::single());
    assert_eq!(detect(&[("RANK", ""), ("WORLD_SIZE", " ")]).unwrap(), LaunchEnv::single());
}

#[test]
fn torchrun_variables_are_read() {
    let rendezvous = Some(Rendezvous { address: "10.0.0.1".into(), port: 6000 });
    assert_eq!(
        detect(&TORCH).unwrap(),
        LaunchEnv {
            launcher: Launcher::Torch,
            rank: 3,
            world_size: 8,
            local_rank: 1,
            local_size: 8,
            rendezvous,
            restarts: 0
        }
    );
    let with_local_size = |value| detect(&[&TORCH[..], &[("LOCAL_WORLD_SIZE", value)]].concat());
    assert_eq!(with_local_size("2").unwrap().local_size, 2);
    assert!(with_local_size("0").unwrap_err().to_string().contains("LOCAL_WORLD_SIZE"));
    let single = detect(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap();
    assert_eq!((single.launcher, single.local_rank, single.rendezvous), (Launcher::Torch, 0, None));
}

#[test]
fn torchrun_takes_precedence_over_slurm_and_slurm_over_mpi() {
    let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")];
    let slurm = [("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4"), ("SLURM_LOCALID", "0"), ("MASTER_ADDR", "h")];
    let all = [&TORCH[..3], &slurm, &mpi, &[("MASTER_PORT", "7")]].concat();
    assert_eq!(detect(&all).unwrap().launcher, Launcher::Torch);
    assert_eq!(detect(&[&slurm[..], &mpi].concat()).unwrap().launcher, Launcher::Slurm);
    assert_eq!(detect(&[&mpi[..], &[("MASTER_ADDR", "h")]].concat()).unwrap().launcher, Launcher::OpenMpi);
}

#[test]
fn slurm_rendezvous_is_the_first_host() {
    let step = [
        ("SLURM_PROCID", "2"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_NTASKS", "9"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NODELIST", "gpu[03-05]"),
    ];
    let env = detect(&step).unwrap();
    assert_eq!((env.rank, env.world_size, env.local_rank), (2, 3, 0));
    assert_eq!(env.rendezvous, Some(Rendezvous { address: "gpu03".into(), port: DEFAULT_PORT }));
    // An allocation without srun.
    assert_eq!(detect(&[("SLURM_NTASKS", "8")]).unwrap(), LaunchEnv::single());
    // The script of a job, without srun.
    let script = [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0")];
    let error = detect(&script).unwrap_err();
    assert!(error.to_string().contains("SLURM_NTASKS is 4") && error.to_string().contains("srun"), "{error}");
    assert_eq!(error.class(), spag_io::ErrorClass::BadInput);
    assert_eq!(detect(&[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")]).unwrap(), LaunchEnv::single());
    let in_script = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")];
    let ranks = detect(&[&script[..], &in_script, &[("MASTER_ADDR", "h")]].concat()).unwrap();
    assert_eq!((ranks.launcher, ranks.rank, ranks.world_size), (Launcher::OpenMpi, 1, 2));
}

#[test]
fn open_mpi_needs_an_address_on_several_machines_only() {
    let variables = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ];
    assert_eq!(
        detect(&variables).unwrap().rendezvous,
        Some(Rendezvous { address: "127.0.0.1".into(), port: DEFAULT_PORT })
    );
    let two_machines = [&variables[..3], &[("OMPI_COMM_WORLD_LOCAL_SIZE", "1")]].concat();
    assert_eq!(
        detect(&two_machines),
        Err(Error::MissingVariable { name: "MASTER_ADDR", implied_by: "OMPI_COMM_WORLD_SIZE" })
    );
}

#[test]
fn errors_name_the_variable_and_the_value() {
    assert_eq!(torch_error("RANK", None), Error::MissingVariable { name: "RANK", implied_by: "WORLD_SIZE" });
    assert_eq!(torch_error("WORLD_SIZE", None), Error::MissingVariable { name: "WORLD_SIZE", implied_by: "RANK" });
    for name in ["LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"] {
        assert!(torch_error(name, None).to_string().contains(name), "{name}");
    }
    for (name, value) in [
        ("RANK", "two"),
        ("RANK", "-1"),
        ("WORLD_SIZE", "0"),
        ("WORLD_SIZE", "8.0"),
        ("LOCAL_RANK", "x"),
        ("MASTER_PORT", "70000"),
        ("MASTER_PORT", "0"),
        ("MASTER_PORT", "-1"),
        ("MASTER_PORT", "18446744073709551616"),
        ("RANK", "18446744073709551615"),
        ("WORLD_SIZE", "18446744073709551615"),
        ("WORLD_SIZE", "18446744073709551616"),
        ("WORLD_SIZE", "16385"),
        ("WORLD_SIZE", "1e300"),
        ("LOCAL_RANK", "-9223372036854775809"),
    ] {
        let message = torch_error(name, Some(value)).to_string();
        assert!(message.contains(name) && message.contains(&format!("{value:?}")), "{message}");
    }
    assert_eq!(
        torch_error("RANK", Some("8")),
        Error::RankOutOfRange { name: "RANK", rank: 8, size_name: "WORLD_SIZE", size: 8 }
    );
    assert_eq!(
        torch_error("LOCAL_RANK", Some("9")).to_string(),
        "environment variable LOCAL_RANK is 9, but WORLD_SIZE is 8: ranks count from 0 to 7"
    );
}

#[test]
fn long_value_is_shortened_and_escaped() {
    let value = format!("\x1b]0;x\x07{}", "9".repeat(1 << 20));
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"] {
        let message = torch_error(name, Some(&value)).to_string();
        assert!(message.contains(name) && message.len() < 500 && !message.contains(char::is_control), "{message}");
    }
}

#[test]
fn restart_count_is_read_from_spag_launch_or_torchrun() {
    let ranks = [("RANK", "0"), ("WORLD_SIZE", "1")];
    let restarts = |variables: &[(&str, &str)]| {
        let all: Vec<_> = ranks.iter().chain(variables).collect();
        LaunchEnv::detect_with(|name| all.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    };
    assert_eq!(restarts(&[]).unwrap().restarts, 0);
    assert_eq!(restarts(&[("TORCHELASTIC_RESTART_COUNT", "2")]).unwrap().restarts, 2);
    assert_eq!(restarts(&[("SPAG_RESTART_COUNT", "1"), ("TORCHELASTIC_RESTART_COUNT", "2")]).unwrap().restarts, 1);
    assert!(restarts(&[("SPAG_RESTART_COUNT", "often")]).unwrap_err().to_string().contains("\"often\""));
}
