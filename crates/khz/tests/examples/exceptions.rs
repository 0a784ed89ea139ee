//! Examples that cannot run in a test, each with the reason; and examples whose exit code is not 0.

/// The example, and why it is not run.
pub const NOT_RUN: &[(&str, &str)] = &[
    ("cargo run --release", "builds this program; every test has done that"),
    ("khz hub --source hub1,hub2", "needs two other machines, and TLS to them"),
    ("khz hub --source text://old1", "needs another machine, and TLS to it"),
    (
        "khz agent --hub hub1,hub2 --tls-ca ca.pem --tls-cert n7.pem --tls-key n7.key",
        "needs two hubs with TLS",
    ),
    (
        "khz agent --hub hub1 --tls-ca ca.pem --token /etc/khz/token",
        "needs a hub with TLS on another machine",
    ),
    (
        "khz hub --link-listen 0.0.0.0:7071 --tls-ca ca.pem --tls-cert hub.pem --tls-key hub.key",
        "needs the certificates that `khz certs` makes for the site",
    ),
    ("khz record --last 5m --hub hub1 -o all.khzt", "needs a hub with TLS on another machine"),
    (
        "khz store export /srv/khz -m 'node[1-8]:net.*' --from '2026-11-21 14:00:00' --to '2026-11-21 15:00:00' -o net.khzt",
        "needs a store that has that hour",
    ),
    ("khz query 'sum(node_load1)' --url http://victoria:8428", "needs another engine on another machine"),
    ("khz export run.khzt --parquet -o run.parquet", "needs a program that is built with Parquet"),
    (
        "khz mount /cluster --hub hub1 --tls-ca ca.pem --token /etc/khz/token",
        "needs a hub with TLS on another machine",
    ),
    ("khz rules check /etc/khz/rules", "needs rule files of the site"),
    ("khz rules check DIR --config /etc/khz/khz.toml", "needs rule files of the site"),
    ("khz rules check a.yml b.yml --json", "needs rule files of the site"),
    ("khz rules test disk_test.yml", "needs rule files of the site"),
    ("khz rules test *_test.yml --run full", "needs rule files of the site"),
    ("khz rules check - < a.yml", "needs rule files of the site"),
    ("khz rules show /etc/khz/rules", "needs rule files of the site"),
    ("khz rules show disk.yml --json", "needs rule files of the site"),
    ("khz simulate --nodes 8 --rate 1 --faults faults.toml", "needs a file of faults"),
    ("khz handler push better.wasm --to busy", "needs a second program"),
    ("khz freeze 'node*'", "its exit code says how long the nodes have run"),
    (
        "khz freeze node[1-8] --before 1m --because 'the job hangs' --wait",
        "its exit code says how long the nodes have run",
    ),
    ("khz plot hang.khzt -m cpu.all.system -o hang.svg", "needs the recording of a freeze"),
    ("khz export hang.khzt --match 'node[1-4]:load.*' > load.csv", "needs the recording of a freeze"),
];

/// The example, and the exit code that it ends with here.
pub const WITH_CODE: &[(&str, i32)] = &[
    // No action has run.
    ("khz actions output 7", 1),
    // Nothing was frozen.
    ("khz blackbox show 7", 1),
    ("khz blackbox export 7 -o hang.khzt", 1),
    ("khz blackbox rm 7", 1),
    // The configuration here has no actions.
    ("khz health --on-unhealthy out", 2),
    // The hub of the examples has no rules.
    ("khz rules reload", 1),
    ("khz rules score", 1),
    ("khz rules score MemoryRunsOut", 1),
    ("khz rules score --json", 1),
    ("khz alerts show NodeDown", 1),
    ("khz alerts show NodeDown node7", 1),
    ("khz alerts show NodeDown node7 --json", 1),
    // Slurm has not started it.
    ("khz job start", 2),
    ("khz job end", 2),
    // The configuration here names nobody to tell.
    ("khz notify test", 2),
    ("khz notify test email", 2),
    ("khz notify test --resolved", 2),
    ("khz notify test --json", 2),
    // Nobody knows most of them, as its line says.
    ("khz nodes 'node[001-128]'", 3),
    // The hub here has stored for minutes, and has nothing of that day.
    ("khz get 'node7:mem.*' --at '2026-11-21 14:03:20'", 1),
    ("khz top node7 --at '2026-11-21 14:03'", 1),
    ("khz export --from '2026-11-21 14:00' --to '2026-11-21 15:00' -m 'node7:load.*'", 1),
    // Here is no terminal.
    ("khz watch 'program.cpu[*]' --top 10", 2),
    ("khz watch 'disk.*[*]' --top 10", 2),
    // One node is down, and the code says so.
    ("khz nodes --down --missing", 3),
];

/// Examples that end with code 3 where a busy machine has made nodes stand still for a second, and what they say then.
pub const ON_A_BUSY_MACHINE: &[(&str, &str)] = &[
    ("khz record --last 5m -o before.khzt", "nodes have stood still"),
    ("khz record 'node7:*' --from -1h -o hour.khzt", "nodes have stood still"),
];
