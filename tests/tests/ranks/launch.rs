//! `spag launch` with shell scripts as ranks.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};

use spag_tests::{Running, program, run, send_signal, wait_until};

/// Much more than any test takes.
const LIMIT: Duration = Duration::from_secs(300);

/// The launcher with these flags, and a script as its program.
fn launch(flags: &[&str], script: &str) -> Command {
    let mut command = program("spag");
    command.env_remove("RAYON_NUM_THREADS").arg("launch").args(flags).args(["--", "sh", "-c", script]);
    command
}

/// A running `spag launch`.
struct Launcher {
    process: Running,
    lines: BufReader<ChildStdout>,
}

impl Launcher {
    fn start(flags: &[&str], script: &str) -> Self {
        Self::of(&mut launch(flags, script))
    }

    fn of(command: &mut Command) -> Self {
        let mut process = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The numbers in the next lines `[rank R] pid N`, in the order of ranks.
    fn pids(&mut self, ranks: usize) -> Vec<u32> {
        let mut pids = vec![0; ranks];
        for _ in 0..ranks {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["[rank", rank, "pid", pid] = words[..] else { panic!("{line:?}") };
            pids[rank.trim_end_matches(']').parse::<usize>().unwrap()] = pid.parse().unwrap();
        }
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        pids
    }

    /// The exit code, what was printed since, and the messages.
    fn end(mut self) -> (Option<i32>, String, String) {
        let code = self.process.wait_for(LIMIT).expect("the launcher exits").code();
        let (mut out, mut err) = (String::new(), String::new());
        self.lines.read_to_string(&mut out).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(!err.contains("panicked"), "{err}");
        (code, out, err)
    }
}

/// Whether a process runs; zombies do not.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn wait_until_gone(pids: &[u32]) {
    wait_until("the ranks have exited", LIMIT, || pids.iter().all(|pid| !is_alive(*pid)));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn environment_of_every_rank_is_set() {
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $SPAG_RESTART_COUNT; \
         echo meet $MASTER_PORT $SPAG_TOKEN $RAYON_NUM_THREADS >&2";
    let (out, err) = run(&mut launch(&["--nproc-per-node", "3"], script), 0);
    let expected: Vec<String> = (0..3).map(|rank| format!("[rank {rank}] {rank}/3 {rank}/3 0 127.0.0.1 0")).collect();
    assert_eq!(sorted(&out), expected);
    let meets: Vec<&str> = sorted(&err).into_iter().map(|line| line.split_once("] meet ").unwrap().1).collect();
    assert!(meets.len() == 3 && meets.iter().all(|line| *line == meets[0]), "{err}");
    let [port, token, threads] = meets[0].split(' ').collect::<Vec<_>>()[..] else { panic!("{err}") };
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{port}");
    assert!(token.len() == 32 && token.chars().all(|c| c.is_ascii_hexdigit()), "{token}");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(threads.parse(), Ok((cores / 3).max(1)));

    let mut configured = launch(&["--nproc_per_node", "2", "--master_port", "4711", "--master_addr", "::1"], script);
    let (_, err) = run(configured.env("SPAG_TOKEN", "mine").env("RAYON_NUM_THREADS", "5"), 0);
    assert_eq!(sorted(&err), ["[rank 0] meet 4711 mine 5", "[rank 1] meet 4711 mine 5"]);

    let timeouts = "echo $SPAG_JOIN_TIMEOUT,$SPAG_HEARTBEAT_TIMEOUT,$SPAG_COLLECTIVE_TIMEOUT";
    let flags = ["--nproc_per_node", "1", "--join_timeout", "300", "--collective_timeout", "1800"];
    assert_eq!(run(&mut launch(&flags, timeouts), 0).0.trim(), "300,,1800");
}

#[test]
fn two_launchers_act_as_two_machines() {
    let machine = |node: &str| {
        let flags = ["--nproc_per_node", "2", "--nnodes", "2", "--node_rank", node, "--master_addr", "127.0.0.1"];
        let mut command =
            launch(&flags, "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_PORT $SPAG_TOKEN");
        command.env("SPAG_TOKEN", "shared");
        Launcher::of(&mut command)
    };
    let (first, second) = (machine("0"), machine("1"));
    let ((code, first, _), (other_code, second, _)) = (first.end(), second.end());
    assert_eq!([code, other_code], [Some(0); 2]);
    assert_eq!(sorted(&first), ["[rank 0] 0/4 0/2 0 29500 shared", "[rank 1] 1/4 1/2 0 29500 shared"]);
    assert_eq!(sorted(&second), ["[rank 2] 2/4 0/2 1 29500 shared", "[rank 3] 3/4 1/2 1 29500 shared"]);
}

#[test]
fn output_keeps_lines_and_bytes() {
    let script = "i=0; while [ $i -lt 500 ]; do echo line-$RANK-$i-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-end; \
                  i=$((i+1)); done; printf 'bar 1\\rbar 2\\r\\n'; printf '\\377 no end'";
    let output = launch(&["--nproc_per_node", "3"], script).output().unwrap();
    assert!(output.status.success());
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 3 * 503);
    for rank in 0..3 {
        let prefix = format!("[rank {rank}] ").into_bytes();
        let own: Vec<&[u8]> = lines.iter().filter_map(|line| line.strip_prefix(&prefix[..])).collect();
        for (i, line) in own[..500].iter().enumerate() {
            assert!(line.starts_with(format!("line-{rank}-{i}-").as_bytes()) && line.ends_with(b"-end"));
        }
        assert_eq!(own[500..], [b"bar 1".as_slice(), b"bar 2", b"\xff no end"]);
    }
}

#[test]
fn output_of_a_single_process_is_unchanged() {
    let output = launch(&["--nproc_per_node", "1"], "printf 'a\\rb'; printf c >&2").output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"a\rb".as_slice(), b"c".as_slice()));
}

#[test]
fn failing_rank_stops_the_others_and_is_named() {
    let script = "echo pid $$; [ $RANK = 1 ] && read line < $PIPE && exit 7; exec sleep 1000";
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    run(Command::new("mkfifo").arg(&pipe), 0);
    let mut running = Launcher::of(launch(&["--nproc_per_node", "3"], script).env("PIPE", &pipe));
    let pids = running.pids(3);
    fs::write(&pipe, "go\n").unwrap();
    let (code, _, err) = running.end();
    assert_eq!(code, Some(7), "{err}");
    assert!(err.contains("error: rank 1 failed first: exit code 7; the others were stopped"), "{err}");
    wait_until_gone(&pids);
}

#[test]
fn killed_rank_is_named_and_not_the_ranks_that_lost_it() {
    // Rank 0 reports a lost peer before or after the launcher notices that rank 1 is dead.
    let script = "echo pid $$; [ $RANK = 0 ] && while kill -0 $(cat $OTHER); do sleep 0.01; done 2>/dev/null && exit 3; \
                  echo $$ > $OTHER; exec sleep 1000";
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        // Until rank 1 has written its own.
        fs::write(&other, std::process::id().to_string()).unwrap();
        let mut running = Launcher::of(launch(&["--nproc_per_node", "2"], script).env("OTHER", &other));
        let pids = running.pids(2);
        let pid = pids[1].to_string();
        wait_until("rank 1 has written its pid", LIMIT, || fs::read_to_string(&other).unwrap().trim() == pid);
        send_signal(pids[1], "KILL");
        let (code, _, err) = running.end();
        assert_eq!(code, Some(137), "{err}");
        assert!(err.contains("rank 1 failed first: killed by SIGKILL (signal 9)"), "{err}");
        wait_until_gone(&pids);
    }
    // Rank 1 exits as soon as the launcher has noticed that rank 0 has: until then, the process of rank 0 is a zombie.
    let late = "[ $RANK = 0 ] && echo $$ > $OTHER && exit 3; \
                while [ ! -s $OTHER ] || kill -0 $(cat $OTHER) 2>/dev/null; do sleep 0.01; done; exit 9";
    let folder = tempfile::tempdir().unwrap();
    let mut late = launch(&["--nproc_per_node", "2"], late);
    let (_, err) = run(late.env("OTHER", folder.path().join("other")), 9);
    assert!(err.contains("rank 1 failed first: exit code 9"), "{err}");
    let (_, err) = run(&mut launch(&["--nproc_per_node", "2"], "[ $RANK = 0 ] && exit 3; sleep 1000"), 1);
    assert!(err.contains("rank 0 failed first: exit code 3 (it lost another rank"), "{err}");
}

#[test]
fn stopped_rank_is_killed() {
    let script = "trap '' TERM; echo pid $$; [ $RANK = 0 ] && while true; do sleep 0.01; done; exec sleep 1000";
    let mut running = Launcher::start(&["--nproc_per_node", "2", "--grace", "0.5"], script);
    let pids = running.pids(2);
    send_signal(pids[1], "STOP");
    send_signal(pids[0], "KILL");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(137), "{err}");
    assert!(err.contains("rank 0 failed first"), "{err}");
    wait_until_gone(&pids);
}

#[test]
fn rank_that_hangs_after_the_others_have_ended_is_named_and_killed() {
    let script = "echo pid $$; [ $RANK = 0 ] && exit 0; trap '' TERM; while true; do sleep 0.01; done";
    let mut running = Launcher::start(&["--nproc_per_node", "2", "--grace", "0.5"], script);
    let mut line = String::new();
    let mut pid = None;
    while pid.is_none() {
        line.clear();
        running.lines.read_line(&mut line).unwrap();
        pid = line.strip_prefix("[rank 1] pid ").map(|pid| pid.trim().parse().unwrap());
    }
    let pid = pid.unwrap();
    send_signal(pid, "STOP");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("error: rank 1 hangs: its process is stopped"), "{err}");
    wait_until_gone(&[pid]);
}

#[test]
fn stopped_ranks_end_with_the_launcher() {
    for signal in ["TERM", "INT"] {
        let mut running = Launcher::start(&["--nproc_per_node", "2", "--grace", "0.5"], "echo pid $$; exec sleep 1000");
        let pids = running.pids(2);
        pids.iter().for_each(|pid| send_signal(*pid, "STOP"));
        send_signal(running.process.id(), signal);
        let (code, _, err) = running.end();
        assert_eq!(code, Some(if signal == "TERM" { 143 } else { 130 }), "{err}");
        wait_until_gone(&pids);
    }
}

#[test]
fn signals_reach_every_rank_once() {
    let script = "trap 'echo user' USR1; trap 'echo ended; exit 0' TERM; trap 'echo hup' HUP; echo pid $$; \
                  while true; do sleep 0.01; done";
    let mut running = Launcher::start(&["--nproc_per_node", "2"], script);
    let launcher = running.process.id();
    let pids = running.pids(2);
    send_signal(launcher, "USR1");
    let mut said = vec![String::new(), String::new()];
    said.iter_mut().for_each(|line| {
        running.lines.read_line(line).unwrap();
    });
    said.sort();
    assert_eq!(said, ["[rank 0] user\n", "[rank 1] user\n"]);
    send_signal(launcher, "TERM");
    let (code, out, err) = running.end();
    assert_eq!((code, sorted(&out)), (Some(143), vec!["[rank 0] ended", "[rank 1] ended"]), "{err}");
    // The shells print messages too.
    assert_eq!(err.lines().last(), Some("stopped by SIGTERM, and all ranks with it"));
    wait_until_gone(&pids);
}

#[test]
fn second_interrupt_kills_at_once() {
    let script = "trap 'echo asked' INT; trap '' TERM; echo pid $$; while true; do sleep 0.01; done";
    let mut running = Launcher::start(&["--nproc_per_node", "2", "--grace", "1000"], script);
    let pids = running.pids(2);
    send_signal(running.process.id(), "INT");
    let mut line = String::new();
    running.lines.read_line(&mut line).unwrap();
    assert!(line.contains("asked") && pids.iter().all(|pid| is_alive(*pid)), "{line}");
    send_signal(running.process.id(), "INT");
    assert_eq!(running.end().0, Some(130));
    wait_until_gone(&pids);
}

#[test]
fn ranks_die_with_a_killed_launcher() {
    let mut running = Launcher::start(&["--nproc_per_node", "2"], "trap '' TERM HUP; echo pid $$; exec sleep 1000");
    let pids = running.pids(2);
    send_signal(running.process.id(), "KILL");
    wait_until_gone(&pids);
}

#[test]
fn child_processes_of_ranks_are_stopped() {
    let script = "sleep 1000 & echo pid $!; sleep 0.2; exit 0";
    let mut running = Launcher::start(&["--nproc_per_node", "2"], script);
    let pids = running.pids(2);
    assert_eq!(running.end().0, Some(0));
    wait_until_gone(&pids);
}

#[test]
fn failures_are_retried_and_bad_input_is_not() {
    let script = "echo try $SPAG_RESTART_COUNT; [ $RANK = 0 ] && [ $SPAG_RESTART_COUNT -lt 2 ] && kill -9 $$; exit 0";
    let flags = ["--nproc_per_node", "2", "--max_restarts", "3"];
    let (out, err) = run(&mut launch(&flags, script), 0);
    let tries: Vec<String> = (0..2).flat_map(|rank| (0..3).map(move |n| format!("[rank {rank}] try {n}"))).collect();
    assert_eq!(sorted(&out), tries);
    assert!(err.contains("restart 1 of 3") && err.contains("restart 2 of 3") && !err.contains("restart 3"), "{err}");

    let (out, _) = run(&mut launch(&["--nproc_per_node", "1", "--max_restarts", "1"], "echo try; exit 5"), 5);
    assert_eq!(out.lines().count(), 2);
    let (out, _) = run(&mut launch(&["--nproc_per_node", "1", "--max_restarts", "5"], "echo try; exit 2"), 2);
    assert_eq!(out.lines().count(), 1);

    let script = "echo pid $$; sleep 1000";
    let mut running = Launcher::start(&["--nproc_per_node", "2", "--max_restarts", "5"], script);
    running.pids(2);
    send_signal(running.process.id(), "TERM");
    let (code, out, err) = running.end();
    assert_eq!((code, out.as_str()), (Some(143), ""), "{err}");
}

#[test]
fn own_programs_are_found_without_path() {
    let mut command = program("spag");
    command.args(["launch", "--nproc_per_node", "2", "--", "spag-train", "--version"]).env("PATH", "");
    let (out, _) = run(&mut command, 0);
    assert_eq!(sorted(&out), ["[rank 0] spag-train 0.1.0", "[rank 1] spag-train 0.1.0"]);
}

#[test]
fn bad_flags_are_rejected_before_a_rank_starts() {
    let several = ["--nproc_per_node", "1", "--nnodes", "2"];
    let with = |more: &[&'static str]| -> Vec<&str> { several.iter().copied().chain(more.iter().copied()).collect() };
    for (flags, names) in [
        (vec![], "--nproc_per_node"),
        (vec!["--nproc_per_node", "0"], "at least 1"),
        (vec!["--nproc_per_node", "100000"], "at most 4096"),
        (vec!["--nproc_per_node", "1", "--node_rank", "1"], "--node_rank 1"),
        (vec!["--nproc_per_node", "1", "--master_port", "0"], "--master_port"),
        (vec!["--nproc_per_node", "1", "--master_addr", ""], "--master_addr"),
        (vec!["--nproc_per_node", "1", "--grace", "1e300"], "--grace"),
        (vec!["--nproc_per_node", "1", "--nproc", "1"], "--nproc"),
        (vec!["--nproc_per_node", "1099511627776"], "at most 4096"),
        (vec!["--nproc_per_node", "-1"], "at least 1"),
        (vec!["--nproc_per_node", "4096", "--nnodes", "4096", "--node_rank", "0"], "at most 16384"),
        (vec!["--nproc_per_node", "1", "--nnodes", "18446744073709551616"], "--nnodes"),
        (vec!["--nproc_per_node", "1", "--node_rank", "18446744073709551615"], "--node_rank"),
        (vec!["--nproc_per_node", "1", "--max_restarts", "18446744073709551615"], "--max_restarts"),
        (vec!["--nproc_per_node", "1", "--grace", "nan"], "--grace"),
        (vec!["--nproc_per_node", "1", "--grace", "inf"], "--grace"),
        (vec!["--nproc_per_node", "1", "--grace", "-1"], "--grace"),
        (vec!["--nproc_per_node", "1", "--heartbeat_timeout", "2"], "at least 3"),
        (vec!["--nproc_per_node", "1", "--join_timeout", "0"], "at least 1"),
        (vec!["--nproc_per_node", "1", "--collective_timeout", "10m"], "--collective_timeout"),
        (with(&[]), "--node_rank"),
        (with(&["--node_rank", "2"]), "--node_rank 2"),
        (with(&["--node_rank", "0"]), "--master_addr"),
        (with(&["--node_rank", "0", "--master_addr", "a"]), "SPAG_TOKEN"),
    ] {
        let (out, err) = run(&mut launch(&flags, "echo started"), 2);
        assert!(err.contains(names) && out.is_empty(), "{flags:?}: {err}");
    }
    let (_, err) = run(program("spag").args(["launch", "--nproc_per_node", "2", "--", "no-such-program"]), 2);
    assert!(err.contains("no-such-program: there is no such program"), "{err}");
    run(program("spag").args(["launch", "--nproc_per_node", "2"]), 2);
}

/// With a folder in place of `/sys` that has two nodes of a CPU each.
#[test]
fn ranks_run_on_the_cpus_of_their_nodes() {
    let list =
        |text: &str| text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let own = list(&fs::read_to_string("/proc/self/status").unwrap());
    let ends = own.split(',').flat_map(|range| [range.split('-').next(), range.split('-').next_back()]).flatten();
    let cpus: std::collections::BTreeSet<&str> = ends.collect();
    let folder = tempfile::tempdir().unwrap();
    for (node, cpu) in cpus.iter().take(2).enumerate() {
        let node = folder.path().join(format!("devices/system/node/node{node}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("cpulist"), format!("{cpu}\n")).unwrap();
    }
    let sysfs = folder.path().to_str().unwrap();
    let ranks = |flags: &[&str]| {
        let flags = [&["--nproc_per_node", "2", "--sysfs", sysfs], flags].concat();
        let (out, _) = run(&mut launch(&flags, "grep Cpus_allowed_list /proc/self/status"), 0);
        sorted(&out).into_iter().map(|line| list(&line[9..])).collect::<Vec<_>>()
    };
    // With one CPU there is one node, and ranks may run anywhere.
    let bound: Vec<&str> = if cpus.len() > 1 { cpus.iter().take(2).copied().collect() } else { vec![&own; 2] };
    assert_eq!(ranks(&[]), bound);
    assert_eq!(ranks(&["--numa", "spread"]), bound);
    assert_eq!(ranks(&["--numa", "none"]), [&*own; 2]);
    let (_, err) = run(&mut launch(&["--nproc_per_node", "2", "--numa", "attic"], "true"), 2);
    assert!(err.contains("--numa") && err.contains("attic"), "{err}");
}
