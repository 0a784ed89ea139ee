//! What describes a node, as a user sees it: `khz get`, `/metrics`, a stream, a recording; and node_exporter beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::exposition::{get_at, promtool_is_content_with};
use crate::node_exporter::NodeExporter;
use crate::process::{Running, code, err, out, run};

/// A host with its names, its firmware's and its distribution's; removed when the test is over.
struct Host(PathBuf);

impl Host {
    fn new(test: &str) -> Self {
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("described-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (path, text) in [
            ("proc/uptime", "350735.47 234388.90\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP Debian 6.1.55-1 (2023-09-29)\n"),
            ("proc/sys/kernel/arch", "x86_64\n"),
            ("proc/sys/kernel/hostname", "n17\n"),
            ("proc/sys/kernel/domainname", "(none)\n"),
            ("sys/class/dmi/id/bios_vendor", "Dell Inc.\n"),
            ("sys/class/dmi/id/product_name", "PowerEdge \"R6515\" 1\\2\n"),
            ("sys/class/dmi/id/product_version", "\n"),
            ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
            ("etc/os-release", "NAME=\"Debian GNU/Linux\"\nID=debian\n"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Host(root)
    }

    fn root(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// What `khz get` prints of it.
    fn get(&self, pattern: &str, format: &str) -> String {
        let output = run(&["get", pattern, "--direct", "--format", format, "--root", self.root()]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn get_prints_labels_below_their_name_and_as_an_object() {
    let host = Host::new("get");
    assert_eq!(
        host.get("host.uname", "table"),
        "SERIES        VALUE  READS\n\
         host.uname\n\
         \x20 domainname  (none)\n\
         \x20 machine     x86_64\n\
         \x20 nodename    n17\n\
         \x20 release     6.1.0-13-amd64\n\
         \x20 sysname     Linux\n\
         \x20 version     #1 SMP Debian 6.1.55-1 (2023-09-29)\n"
    );
    let object: Value = serde_json::from_str(&host.get("host.os", "json")).unwrap();
    assert_eq!(object["info"], json!({ "id": "debian", "name": "Debian GNU/Linux" }));
    let properties = host.get("host.dmi", "properties");
    assert!(
        properties.ends_with(
            "\nhost.dmi.product_name=PowerEdge \"R6515\" 1\\\\2\nhost.dmi.system_vendor=Dell Inc.\n"
        )
    );
}

#[test]
fn metrics_shows_them_as_node_exporter_does() {
    let host = Host::new("metrics");
    let running = Running::start(&["--root", host.root()]);
    let text = get_at(&running, "/metrics?collect[]=uname&collect[]=dmi&collect[]=os");
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        samples,
        [
            "node_uname_info{domainname=\"(none)\",machine=\"x86_64\",nodename=\"n17\",release=\"6.1.0-13-amd64\",\
             sysname=\"Linux\",version=\"#1 SMP Debian 6.1.55-1 (2023-09-29)\"} 1",
            "node_dmi_info{bios_vendor=\"Dell Inc.\",product_name=\"PowerEdge \\\"R6515\\\" 1\\\\2\",system_vendor=\"Dell Inc.\"} 1",
            "node_os_info{id=\"debian\",name=\"Debian GNU/Linux\"} 1",
        ]
    );
    promtool_is_content_with(&text);
    running.end("TERM");
}

#[test]
fn a_recording_has_them_and_its_csv_has_as_many_cells_as_titles() {
    let host = Host::new("record");
    let recording = host.0.join("r.khzt");
    let file = recording.to_str().unwrap();
    let record = [
        "record",
        "host.uname",
        "uptime.*",
        "--for",
        "1s",
        "--rate",
        "10Hz",
        "--direct",
        "--root",
        host.root(),
        "-o",
        file,
    ];
    let output = run(&record);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let csv = out(&run(&["export", file, "-m", "host.uname", "-m", "uptime.up"]));
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time,boot,node,uptime.up,host.uname"));
    let row = lines.next().unwrap();
    let (numbers, labels) = row.split_once('"').unwrap();
    assert_eq!(numbers.split(',').count(), 5);
    assert_eq!(
        labels,
        "domainname=(none),machine=x86_64,nodename=n17,release=6.1.0-13-amd64,sysname=Linux,\
         version=#1%20SMP%20Debian%206.1.55-1%20(2023-09-29)\""
    );
    let json = out(&run(&["export", file, "-m", "host.uname", "--json"]));
    let row: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(row["values"]["host.uname"]["info"]["nodename"], "n17");
    let plot = run(&["plot", file, "-m", "host.uname", "-o", host.0.join("x.svg").to_str().unwrap()]);
    assert!(code(&plot) == 2 && err(&plot).contains("khz export"), "{}", err(&plot));
}

#[test]
fn check_and_catalog_know_descriptions() {
    let host = Host::new("check");
    let output = run(&["check", "host.*", "--root", host.root(), "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let outcomes: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (source, name) in outcomes.iter().zip(["uname", "dmi", "os"]) {
        assert_eq!((&source["source"], &source["outcome"]), (&json!(name), &json!("works")));
    }
    let catalog = out(&run(&["catalog", "host.uname", "--direct"]));
    let line = catalog.lines().find(|line| line.starts_with("host.uname")).expect(&catalog);
    let [_, kind, value_type] = line.split_whitespace().take(3).collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    assert_eq!((kind, value_type), ("info", "labels"), "{catalog}");
    let entry: Value =
        serde_json::from_str(&out(&run(&["catalog", "host.uname", "--direct", "--json"]))).unwrap();
    assert_eq!(entry["type"], "labels");
}

/// The labels of the families `node_..._info`, without empty ones: to Prometheus, they do not exist.
fn infos(text: &str) -> BTreeMap<String, Vec<String>> {
    let info = |line: &str| {
        let (family, labels) = line.strip_suffix("\"} 1")?.split_once('{')?;
        let labels = labels.split("\",").filter(|label| !label.ends_with('"')).map(str::to_owned);
        (family.ends_with("_info") && family != "node_exporter_build_info")
            .then(|| (family.to_owned(), labels.collect()))
    };
    text.lines().filter(|line| line.starts_with("node_")).filter_map(info).collect()
}

#[test]
fn node_exporter_has_the_same_labels() {
    let started =
        NodeExporter::start(&["--collector.disable-defaults", "--collector.uname", "--collector.os"]);
    let theirs = match started {
        Ok(theirs) => theirs,
        Err(error) => {
            return khz_skip::skip(format!(
                "node_exporter (Debian package prometheus-node-exporter): {error}"
            ));
        }
    };
    let ours = Running::start(&[]);
    let (theirs, shown) = (infos(&theirs.metrics()), get_at(&ours, "/metrics?collect[]=uname&collect[]=os"));
    assert!(theirs.contains_key("node_uname_info"), "{theirs:?}");
    assert_eq!(infos(&shown), theirs);
    ours.end("TERM");
    // This machine may have no such firmware.
    let host = Host::new("exporter");
    let flag = format!("--path.sysfs={}/sys", host.root());
    let theirs = NodeExporter::start(&["--collector.disable-defaults", "--collector.dmi", &flag]).unwrap();
    let ours = Running::start(&["--root", host.root()]);
    let theirs = infos(&theirs.metrics());
    assert_eq!(theirs["node_dmi_info"].len(), 3);
    assert_eq!(infos(&get_at(&ours, "/metrics?collect[]=dmi")), theirs);
    ours.end("TERM");
}

#[test]
fn check_names_what_is_left_out_and_cannot_be_read_and_where_it_looked() {
    let host = Host::new("check-problems");
    let folder = host.0.join("numbers");
    std::fs::create_dir_all(folder.join("c.prom")).unwrap();
    std::fs::write(folder.join("a.prom"), "on 1\n").unwrap();
    std::fs::write(folder.join("b.prom"), "on 1\nload").unwrap();
    // Nobody can list it, not even root: it leads to itself.
    let room = host.0.join("room");
    std::os::unix::fs::symlink(&room, &room).unwrap();
    let config = host.0.join("khz.toml");
    let text = "[sources.textfile]\npath = \"/numbers\"\n[sources.d700]\npath = \"/room/*/v\"\n[sources.gone]\npath = \"/nowhere/v\"\n";
    std::fs::write(&config, text).unwrap();
    let flags = ["textfile", "d700", "gone", "--root", host.root(), "--config", config.to_str().unwrap()];
    let output = run(&[&["check", "--json"], &flags[..]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let sources: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let source = |name: &str| sources.iter().find(|source| source["source"] == name).unwrap();
    let numbers = source("textfile");
    assert_eq!((&numbers["outcome"], &numbers["file"]), (&json!("works"), &json!("/numbers")));
    let remark = numbers["remark"].as_str().unwrap();
    for part in ["textfile.error is 1", "/numbers/b.prom: line 2", "/numbers/c.prom: it is a folder"] {
        assert!(remark.contains(part), "{remark}");
    }
    assert!(!remark.contains("a.prom"), "{remark}");
    let refused = source("d700");
    assert_eq!(refused["outcome"], "failed");
    let why = refused["why"].as_str().unwrap();
    assert!(why.contains("/room: the folder cannot be read: "), "{why}");
    assert_eq!(
        (&source("gone")["outcome"], &source("gone")["why"]),
        (&json!("absent"), &json!("there is no file /nowhere/v"))
    );
    let table = out(&run(&[&["check"], &flags[..]].concat()));
    assert!(table.contains("\ntextfile:\n  textfile.error is 1"), "{table}");
}
