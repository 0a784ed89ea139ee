//! A hub that other machines can reach: agent and readers use an address that is not loopback, in a network namespace of
//! their own. Needs root and iproute2; otherwise it is skipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The walk-through of docs/security.md, and what must not work. Each step prints its name, its exit code
/// and its stderr.
const SCRIPT: &str = r#"
set -u
ip link set lo up && ip address add 10.77.0.1/32 dev lo || exit 77
cd "$FOLDER" && umask 077
export KHZ_RUN_DIR="$FOLDER/run" KHZ_STATE_DIR=none XDG_CONFIG_HOME=/nonexistent
# /dev/shm and /run are not those of this machine's own khz.
mkdir run
step() { name=$1; shift; "$@" > out 2> err; code=$?; echo "$name $code $(head -c 400 err | tr '\n' ' ')"; }

"$KHZ" certs init --dir tls > log
"$KHZ" certs hub hub1 10.77.0.1 --dir tls >> log
"$KHZ" certs node n2 --dir tls >> log
"$KHZ" certs reader carol --dir tls >> log
for who in 'node n1' 'reader bob' 'operator alice'; do
    "$KHZ" certs token $who --dir tls > "$(echo "$who" | tr ' ' '-').token"
done
SERVER="--tls-cert tls/hub-hub1.pem --tls-key tls/hub-hub1.key --tls-ca tls/ca.pem --cluster-key tls/cluster.key"

# What may not be opened.
step plain-hub "$KHZ" hub --listen 127.0.0.1:0 --link-listen 10.77.0.1:7071
step plain-door "$KHZ" hub --listen 10.77.0.1:7070 --link-listen 127.0.0.1:0
step plain-agent "$KHZ" agent --hub 10.77.0.1:7071 --node n1 --token node-n1.token
step nobody-known "$KHZ" hub --listen 10.77.0.1:7070 --tls-cert tls/hub-hub1.pem --tls-key tls/hub-hub1.key

mkfifo line
"$KHZ" hub --listen 10.77.0.1:7070 --link-listen 10.77.0.1:7071 $SERVER --quiet \
    --text-listen 10.77.0.1:2709 > line 2> hub.log &
hub=$!
read -r announced < line
echo "announced 0 $announced"
"$KHZ" agent --hub 10.77.0.1 --node n1 --token node-n1.token --tls-ca tls/ca.pem > /dev/null 2> n1.log &
n1=$!
"$KHZ" agent --hub 10.77.0.1 --node n2 --tls-cert tls/node-n2.pem --tls-key tls/node-n2.key --tls-ca tls/ca.pem \
    > /dev/null 2> n2.log &
n2=$!

URL=https://10.77.0.1:7070
ALICE="--server $URL --tls-ca tls/ca.pem --token operator-alice.token"
BOB="--server $URL --tls-ca tls/ca.pem --token reader-bob.token"
CAROL="--server $URL --tls-ca tls/ca.pem --tls-cert tls/reader-carol.pem --tls-key tls/reader-carol.key"
tries=0
until "$KHZ" get 'n[1-2]:mem.free' $ALICE > out 2> err || [ $tries -ge 300 ]; do tries=$((tries + 1)); done
step both-nodes "$KHZ" get 'n[1-2]:mem.free' $ALICE
step nobody "$KHZ" get 'n1:mem.free' --server $URL --tls-ca tls/ca.pem
step plain-http "$KHZ" get 'n1:mem.free' --server http://10.77.0.1:7070
step token-bob "$KHZ" get 'n1:mem.free' $BOB
step certificate-carol "$KHZ" get 'n1:mem.free' $CAROL
step fast-bob "$KHZ" watch 'n1:cpu.all.user' --rate 200 --count 3 $BOB
step fast-carol "$KHZ" watch 'n1:cpu.all.user' --rate 200 --count 3 $CAROL
step fast-alice "$KHZ" watch 'n1:cpu.all.user' --exact --rate 200 --count 3 $ALICE
step token-node "$KHZ" get 'n1:mem.free' --server $URL --tls-ca tls/ca.pem --token node-n1.token
step local-root "$KHZ" watch 'n1:cpu.all.user' --exact --rate 200 --count 3
chmod 755 "$FOLDER" "$FOLDER/run"
step local-nobody setpriv --reuid 65534 --regid 65534 --clear-groups "$KHZ" watch 'n1:cpu.all.user' --rate 200 --count 3
# Other hubs ask the first one over the text protocol: without its CA, with a certificate of their own, and without.
step plain-source "$KHZ" hub --listen 127.0.0.1:0 --link-listen 127.0.0.1:0 --source text://10.77.0.1
"$KHZ" certs hub hub2 127.0.0.1 --dir tls >> log
PAIR="--tls-cert tls/hub-hub2.pem --tls-key tls/hub-hub2.key"
UPPER="hub --listen 127.0.0.1:0 --link-listen 127.0.0.1:0 --source text://10.77.0.1 --tls-ca tls/ca.pem --quiet"
"$KHZ" $UPPER --run-dir run2 $PAIR > /dev/null 2> hub2.log &
hub2=$!
"$KHZ" $UPPER --run-dir run3 > /dev/null 2> hub3.log &
hub3=$!
tries=0
until KHZ_RUN_DIR=run2 "$KHZ" get 'n[1-2]:mem.free' > out 2> err && grep -q source hub3.log || [ $tries -ge 300 ]
do tries=$((tries + 1)); done
step text-source env KHZ_RUN_DIR=run2 "$KHZ" get 'n[1-2]:mem.free'
step text-stranger env KHZ_RUN_DIR=run3 "$KHZ" get 'n[1-2]:mem.free'
grep source hub3.log > out; echo "text-refusal 0 $(cat out)"
kill $hub2 $hub3
wait $hub2 $hub3
kill $n1 $n2 $hub
wait $n1 $n2 $hub
"#;

#[test]
fn off_loopback_only_who_shows_something_comes_in_and_does_what_his_role_may() {
    // Other users cannot read the target folder, so the program is copied to a place where another user can start it.
    let folder = std::env::temp_dir().join(format!("khz-elsewhere-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("khz");
    std::fs::copy(env!("CARGO_BIN_EXE_khz"), &program).unwrap();
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", SCRIPT])
        .env("FOLDER", &folder)
        .env("KHZ", &program)
        .stdin(Stdio::null())
        .output();
    let log = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let logs: String = ["hub", "n1", "n2", "hub2", "hub3"]
        .map(|who| format!("{who}: {}\n", log(&format!("{who}.log"))))
        .concat();
    let _ = std::fs::remove_dir_all::<&PathBuf>(&folder);
    let lines = match ran {
        Ok(output) if !output.stdout.is_empty() => String::from_utf8(output.stdout).unwrap(),
        other => {
            return khz_skip::skip(format!("needs root, unshare and iproute2: {other:?}"));
        }
    };
    let step = |name: &str| {
        let line = lines.lines().find(|line| line.split(' ').next() == Some(name));
        let rest =
            line.unwrap_or_else(|| panic!("no {name} in:\n{lines}\n{logs}")).split_once(' ').unwrap().1;
        let (code, message) = rest.split_once(' ').unwrap();
        (code.to_owned(), message.to_owned())
    };
    for (name, code, message) in [
        ("plain-hub", "2", "--tls-cert and --tls-key"),
        ("plain-door", "2", "--tls-cert and --tls-key"),
        ("plain-agent", "2", "--tls-ca"),
        ("nobody-known", "2", "--cluster-key"),
        ("announced", "0", "https://10.77.0.1:7070/"),
        ("both-nodes", "0", ""),
        ("nobody", "2", "this door asks who you are"),
        ("plain-http", "2", "this door speaks TLS"),
        ("token-bob", "0", ""),
        ("certificate-carol", "0", ""),
        ("fast-bob", "2", "you are reader bob"),
        ("fast-carol", "2", "you are reader carol"),
        ("fast-alice", "0", ""),
        ("token-node", "2", "a node sends"),
        ("local-root", "0", ""),
        ("local-nobody", "2", "200Hz is for operators"),
        ("plain-source", "2", "--tls-ca"),
        ("text-source", "0", ""),
        ("text-stranger", "1", "no node is called n[1-2]"),
        ("text-refusal", "0", "it says: this door asks who you are"),
    ] {
        let (found, text) = step(name);
        assert!(found == code && text.contains(message), "{name} {found} {text}\n{lines}\n{logs}");
    }
}
