//! A hub that acts on a real Slurm, of Debian's packages: munged, slurmctld and three slurmd on loopback, in a PID namespace that ends
//! with the test.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::process::{Running, code, err, khz, out, until};
use crate::remote_write::Place;
use crate::text::free_port;

const PATIENCE: Duration = Duration::from_secs(120);

/// What a Slurm needs; the rest is in the configuration.
const CONF: &str = "ClusterName=khz
SlurmctldHost=localhost(127.0.0.1)
AuthType=auth/munge
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=1
SlurmdTimeout=3600
";

/// Starts everything, and waits for its first end.
const START: &str = "cd \"$0\"
munged --force -F --key-file=munge/key --socket=$0/munge.socket --pid-file=$0/munge/pid --log-file=$0/munge/log \\
    --seed-file=$0/munge/seed &
until test -S $0/munge.socket; do sleep 0.1; done
export SLURM_CONF=$0/slurm.conf
slurmctld -D -c &
for node in n1 n2 n3; do slurmd -D -c -N $node & done
wait";

/// A Slurm with the nodes n1, n2 and n3.
struct Cluster {
    place: PathBuf,
    child: Child,
}

impl Cluster {
    /// Starts it; the error says what this machine lacks.
    fn start() -> Result<Self, String> {
        Cluster::start_with("khz-slurm", |_| String::new())
    }

    /// The same with more lines of its configuration; `more` gets its folder.
    fn start_with(name: &str, more: impl Fn(&Path) -> String) -> Result<Self, String> {
        for program in ["munged", "slurmctld", "slurmd", "scontrol", "sbatch", "unshare"] {
            let place = |folder: &&str| Path::new(folder).join(program).exists();
            if !["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(place) {
                return Err(format!(
                    "there is no {program} (Debian packages munge, slurmctld, slurmd, slurm-client)"
                ));
            }
        }
        let apart = ["--pid", "--fork", "--kill-child", "--mount-proc"];
        let can = Command::new("unshare").args(apart).arg("true").stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) || !rustix::process::geteuid().is_root() {
            return Err("Slurm is started by root, in a namespace of its own".to_owned());
        }
        // A socket's path is short.
        let place = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        for folder in ["munge", "state", "spool-n1", "spool-n2", "spool-n3"] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let mut key = vec![0; 1_024];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut key).unwrap();
        std::fs::write(place.join("munge/key"), key).unwrap();
        for (path, mode) in [("munge/key", 0o600), ("munge", 0o700), (".", 0o755)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(place.join(path), mode).unwrap();
        }
        std::fs::write(place.join("slurm.conf"), conf(&place) + &more(&place)).unwrap();
        let log = std::fs::File::create(place.join("log")).unwrap();
        let child = Command::new("unshare")
            .args(apart)
            .args(["sh", "-c", START])
            .arg(&place)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let cluster = Cluster { place, child };
        until(PATIENCE, "Slurm has three idle nodes", || {
            let states = out(&cluster.ask("sinfo", &["-h", "-N", "-o", "%N=%T"]));
            ["n1=idle", "n2=idle", "n3=idle"].iter().all(|state| states.lines().any(|line| line == *state))
        });
        Ok(cluster)
    }

    fn conf(&self) -> String {
        self.place.join("slurm.conf").display().to_string()
    }

    fn ask(&self, program: &str, words: &[&str]) -> Output {
        Command::new(program).args(words).env("SLURM_CONF", self.conf()).output().unwrap()
    }

    /// State and reason of a node.
    fn node(&self, name: &str) -> String {
        out(&self.ask("sinfo", &["-h", "-N", "-n", name, "-o", "%T: %E"])).trim().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The first process of the namespace ends with it, and all others with that one.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn conf(place: &Path) -> String {
    let (mut text, place) = (CONF.to_owned(), place.display());
    let port = || free_port().rsplit(':').next().unwrap().to_owned();
    let _ = writeln!(text, "AuthInfo=socket={place}/munge.socket\nSlurmctldPort={}", port());
    for (key, path) in [
        ("StateSaveLocation", "state"),
        ("SlurmdSpoolDir", "spool-%n"),
        ("SlurmctldPidFile", "ctld.pid"),
        ("SlurmdPidFile", "slurmd-%n.pid"),
        ("SlurmctldLogFile", "ctld.log"),
        ("SlurmdLogFile", "slurmd-%n.log"),
    ] {
        let _ = writeln!(text, "{key}={place}/{path}");
    }
    for node in ["n1", "n2", "n3"] {
        let _ = writeln!(
            text,
            "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=1 RealMemory=10 Weight={}",
            port(),
            if node == "n1" { 9 } else { 1 }
        );
    }
    text + "PartitionName=all Nodes=n1,n2,n3 Default=YES State=UP\n"
}

const RULES: &str = "groups:
- name: nodes
  interval: 1s
  rules:
  - alert: NodeBroken
    expr: max by (instance) (node_memory_MemTotal_bytes) > 0
    annotations:
      summary: '{{ $labels.instance }} is broken'
      khz_actions: dry, drain-node, again
";

fn start(place: &Place, link: &str, conf: &str) -> Running {
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file("rules/nodes.yml", RULES);
    let text = format!(
        "[actions.dry]\ndrain = {{ conf = \"{conf}\" }}\nper_hour = 9\n\
         [actions.drain-node]\ndrain = {{ conf = \"{conf}\" }}\ndry_run = false\nper_hour = 2\n\
         [actions.again]\nrequeue = {{ conf = \"{conf}\" }}\ndry_run = false\nper_hour = 9\n"
    );
    let (config, rules, state) =
        (place.file("khz.toml", &text), place.0.join("rules"), place.0.join("state"));
    let words =
        ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
    let more = ["--rules", rules.to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let mut command = khz(&[&words[..], &more].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

/// The run of an action for a node when it has ended: its outcome, and what was said.
fn ended(hub: &Running, action: &str, node: &str) -> (String, String) {
    let mut found = None;
    until(PATIENCE, &format!("{action} has ended for {node}"), || {
        let log = hub.beside(&["actions", "log", "--json"]).output().unwrap();
        assert_eq!(code(&log), 0, "{}", err(&log));
        let runs = out(&log);
        let runs = runs.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let run = runs.into_iter().find(|run| run["action"] == action && run["node"] == node);
        let text = |run: &serde_json::Value, key: &str| run[key].as_str().map(str::to_owned);
        found = run.and_then(|run| Some((text(&run, "outcome")?, text(&run, "text")?)));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn an_alert_drains_a_node_of_a_real_slurm_and_requeues_its_jobs_but_not_too_many_nodes() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(lacking) => return khz_skip::skip(lacking),
    };
    let drained = ["update", "NodeName=n2", "State=DRAIN", "Reason=by hand"];
    assert_eq!(code(&cluster.ask("scontrol", &drained)), 0);
    // An array of two tasks. The last one is on n1, the node with the larger weight; its number is that of the array.
    let job = ["--array=1-2", "--requeue", "--output=/dev/null", "--wrap=sleep 600"];
    let job = cluster.ask("sbatch", &job);
    assert_eq!(code(&job), 0, "{}", err(&job));
    let jobs = || {
        let listed = out(&cluster.ask("squeue", &["-h", "-o", "%K %T %N"]));
        let mut lines: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort();
        lines
    };
    until(PATIENCE, "both tasks run", || jobs() == ["1 RUNNING n3", "2 RUNNING n1"]);
    let (place, link) = (Place::new("slurm"), free_port());
    let hub = start(&place, &link, &cluster.conf());

    let _n1 = place.agent(&link, "n1");
    let dry = ended(&hub, "dry", "n1");
    assert_eq!(dry.0, "dry_run", "{}", dry.1);
    let would =
        "would run /usr/bin/scontrol update NodeName=n1 State=DRAIN Reason=khz: NodeBroken: n1 is broken";
    assert!(dry.1.starts_with(would), "{}", dry.1);
    let done = ended(&hub, "drain-node", "n1");
    assert_eq!((done.0.as_str(), done.1.as_str()), ("done", "n1 drains: khz: NodeBroken: n1 is broken"));
    let again = ended(&hub, "again", "n1");
    assert_eq!(again.0, "done", "{}", again.1);
    until(PATIENCE, "the task of n1 waits again, and its node is drained", || {
        jobs() == ["1 RUNNING n3", "2 PENDING"]
            && cluster.node("n1") == "drained: khz: NodeBroken: n1 is broken"
    });
    assert_eq!(code(&cluster.ask("scancel", &["-u", "root"])), 0);
    until(PATIENCE, "no job is left", || jobs().is_empty());

    let _n2 = place.agent(&link, "n2");
    let nothing = ended(&hub, "drain-node", "n2");
    assert_eq!(nothing.0, "nothing", "{}", nothing.1);
    assert_eq!(cluster.node("n2"), "drained: by hand");

    let _n3 = place.agent(&link, "n3");
    let held = ended(&hub, "drain-node", "n3");
    assert_eq!((held.0.as_str(), held.1.as_str()), ("held", "2 within the last hour, and per_hour is 2"));
    let idle = ended(&hub, "again", "n3");
    assert_eq!((idle.0.as_str(), idle.1.as_str()), ("nothing", "no job runs on n3"));
    assert_eq!(
        cluster.node("n3"),
        "idle: none",
        "neither the dry run nor the one that was held has done anything"
    );

    let listed = out(&hub.beside(&["actions", "list"]).output().unwrap());
    assert!(listed.contains("drain (dry run)") && listed.contains("requeue"), "{listed}");
    let alerts = out(&hub.beside(&["alerts"]).output().unwrap());
    assert!(alerts.contains("again: nothing: no job runs on n3"), "{alerts}");
}

/// A script that Slurm runs, which tells the hub of this run directory.
fn script(folder: &Path, name: &str, run: &Path, word: &str) -> PathBuf {
    let (path, khz) = (folder.join(name), env!("CARGO_BIN_EXE_khz"));
    let text = format!(
        "#!/bin/sh\nexport KHZ_RUN_DIR={} KHZ_STATE_DIR=none\n{khz} job {word} 2>>{}/said\n",
        run.display(),
        folder.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn jobs_of(hub: &Running) -> Vec<serde_json::Value> {
    let listed = out(&hub.beside(&["job", "list", "--json"]).output().unwrap());
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A Slurm whose `scripts` tell a hub, and the jobs that the hub then has: one of two nodes that exits with 3, and one that is cancelled.
fn told_by(name: &str, scripts: [(&str, &str); 2]) -> Option<Vec<serde_json::Value>> {
    let place = Place::new(name);
    let (run, link) = (place.0.join("run"), free_port());
    let mut command = khz(&["hub", "--listen", "127.0.0.1:0", "--link-listen", &link, "--node", "hub"]);
    command.env("KHZ_RUN_DIR", &run);
    let hub = Running::of(command);
    let cluster = Cluster::start_with(name, |folder| {
        let line = |(key, word): (&str, &str)| {
            format!("{key}={}\n", script(folder, &format!("{key}.sh"), &run, word).display())
        };
        scripts.map(line).concat()
    });
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(lacking) => {
            khz_skip::skip(lacking);
            return None;
        }
    };
    let said = || std::fs::read_to_string(cluster.place.join("said")).unwrap_or_default();
    let submit = |words: &[&str]| {
        let all = [&["--output=/dev/null", "--parsable"], words].concat();
        let submitted = cluster.ask("sbatch", &all);
        assert_eq!(code(&submitted), 0, "{}", err(&submitted));
        out(&submitted).trim().to_owned()
    };
    let first = submit(&["-N2", "--array=7", "--job-name=solve", "--wrap=exit 3"]);
    until(PATIENCE, &format!("the first job has ended: {}", said()), || {
        jobs_of(&hub).iter().any(|job| job["id"] == *first && !job["end"].is_null())
    });
    let second = submit(&["-N1", "--job-name=wait", "--wrap=sleep 600"]);
    until(PATIENCE, "the second job runs", || {
        jobs_of(&hub).iter().any(|job| job["id"] == *second && job["end"].is_null())
    });
    assert_eq!(code(&cluster.ask("scancel", &[&second])), 0);
    until(PATIENCE, "the second job has ended", || {
        jobs_of(&hub).iter().any(|job| job["id"] == *second && !job["end"].is_null())
    });
    let nodes = ["n1", "n2", "n3"].map(|node| cluster.node(node));
    assert!(nodes.iter().all(|state| !state.contains("drain")), "no script has failed: {nodes:?}");
    let mut jobs = jobs_of(&hub);
    jobs.sort_by_key(|job| job["run"].as_u64());
    Some(jobs)
}

#[test]
fn the_scripts_of_slurmctld_tell_a_hub_of_jobs_with_their_nodes_users_and_ends() {
    let scripts = [("PrologSlurmctld", "start"), ("EpilogSlurmctld", "end")];
    let Some(jobs) = told_by("khz-ctld-jobs", scripts) else { return };
    let text = |job: &serde_json::Value, key: &str| job[key].as_str().unwrap_or("-").to_owned();
    let first = &jobs[0];
    // n1 has the larger weight.
    assert_eq!((text(first, "name"), text(first, "nodes")), ("solve".into(), "n[2-3]".into()), "{jobs:?}");
    assert_eq!(text(first, "alias"), format!("{}_7", text(first, "id")), "{jobs:?}");
    assert_eq!((text(first, "user"), text(first, "outcome")), ("root".into(), "exit 3".into()), "{jobs:?}");
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    // What comes of one that was cancelled depends on how far it was.
    assert_eq!(text(&jobs[1], "name"), "wait", "{jobs:?}");
}

#[test]
fn the_scripts_of_the_nodes_tell_a_hub_of_one_job_together() {
    let Some(jobs) = told_by("khz-node-jobs", [("Prolog", "start"), ("Epilog", "end")]) else { return };
    assert_eq!((jobs.len(), jobs[0]["nodes"].as_str()), (2, Some("n[2-3]")), "{jobs:?}");
}
