//! `spag bench links`: collectives of two real ranks.

use std::process::Command;

use serde_json::Value;
use spag_tests::{program, run};

/// The command on as many ranks.
fn bench(ranks: &str, flags: &[&str]) -> Command {
    let mut command = program("spag");
    let spag = command.get_program().to_owned();
    command.args(["launch", "--nproc_per_node", ranks, "--"]).arg(spag).args(["bench", "links", "--device", "cpu"]);
    command.args(["--rounds", "2"]).args(flags);
    command
}

/// The lines of rank 0; no other rank prints any.
fn lines(out: &str) -> Vec<&str> {
    out.lines().map(|line| line.strip_prefix("[rank 0] ").unwrap_or_else(|| panic!("{out}"))).collect()
}

#[test]
fn bytes_and_bandwidths_follow_from_collective_and_ranks() {
    for (ranks, dtype, element) in [(2, "float32", 4), (3, "bfloat16", 2)] {
        let flags = ["--bytes", "1000,60000", "--json", "--dtype", dtype];
        let (out, _) = run(&mut bench(&ranks.to_string(), &flags), 0);
        let lines: Vec<Value> = lines(&out).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = lines.iter().map(|line| line["collective"].as_str().unwrap()).collect();
        let names_twice = ["all-gather", "reduce-scatter", "all-reduce", "broadcast"].map(|name| [name, name]);
        assert_eq!(names, names_twice.concat());
        for (line, bytes) in lines.iter().zip([1000u64, 60_000].into_iter().cycle()) {
            // Whole elements for each rank.
            let bytes = bytes.div_ceil(ranks * element) * ranks * element;
            assert_eq!((line["bytes"].as_u64(), line["ranks"].as_u64()), (Some(bytes), Some(ranks)));
            let number = |name: &str| line[name].as_f64().unwrap();
            // Each part goes to every other rank, sums twice: to be added, and back.
            let times = if line["collective"] == "all-reduce" { 2 } else { 1 };
            assert_eq!(number("bytes_sent"), (times * bytes * (ranks - 1)) as f64, "{line}");
            let (seconds, algorithm, bus) = (number("seconds"), number("algorithm_gb_per_s"), number("bus_gb_per_s"));
            assert!(seconds > 0.0 && (algorithm * 1e9 * seconds / bytes as f64 - 1.0).abs() < 0.01, "{line}");
            let of_links = match line["collective"].as_str() {
                Some("broadcast") => 1.0,
                _ => times as f64 * (ranks - 1) as f64 / ranks as f64,
            };
            assert!((bus / algorithm / of_links - 1.0).abs() < 0.01, "{line}");
        }
    }
}

#[test]
fn rank_0_prints_a_table() {
    let (out, _) = run(&mut bench("2", &["--bytes", "4096"]), 0);
    let lines = lines(&out);
    assert!(lines[0].starts_with("2 ranks on cpu") && lines[2].ends_with("bus GB/s"), "{out}");
    let rows: Vec<Vec<&str>> = lines[3..].iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 4, "{out}");
    for row in rows {
        assert_eq!(row[1], "4096");
        assert!(row[2..].iter().all(|number| number.parse::<f64>().unwrap() >= 0.0) && row.len() == 5, "{out}");
    }
}

#[test]
fn one_rank_and_buffers_beyond_memory_are_refused() {
    let (_, err) = run(program("spag").args(["bench", "links"]), 2);
    assert!(err.contains("spag bench links: it measures several ranks"), "{err}");
    let (_, err) = run(&mut bench("2", &["--bytes", "1099511627776"]), 2);
    assert!(err.contains("--bytes 1099511627776") && err.contains("are free"), "{err}");
}
