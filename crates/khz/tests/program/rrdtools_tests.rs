//! The test scripts of rrdtool's own release, with khz under the names `rrdtool` and `rrdcached`. They come as Debian's source
//! package and run in a temporary folder. Only what passes with Debian's programs has to pass with khz.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The source package, and the version whose behaviour khz has.
const PACKAGE: (&str, &str) = ("rrdtool", "1.7.2");

/// Scripts that khz does not pass, and why.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// How long one script may take, in seconds; the longest take 5.
const SECONDS: &str = "300";

/// A folder that is removed after the test. Names are short: the path of a socket has 107 bytes, and rrdtool cuts longer
/// ones without a word.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("khz-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `program` in `folder`, or says why it failed.
fn ran(program: &str, words: &[&str], folder: &Path) -> Result<(), String> {
    let output = Command::new(program).args(words).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{program} {}: {}", words.join(" "), said.trim()))
    }
}

/// The unpacked source package. apt keeps its own lists of sources here, so the machine's settings stay as they are.
fn source(folder: &Path) -> Result<PathBuf, String> {
    const SOURCES: &str = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                           http://deb.debian.org/debian bookworm main\n";
    let apt = folder.join("apt");
    let place = |name: &str| apt.join(name).to_str().unwrap().to_owned();
    for name in ["parts", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(name)).unwrap();
    }
    fs::write(apt.join("sources.list"), SOURCES).unwrap();
    let options = [
        format!("Dir::Etc::SourceList={}", place("sources.list")),
        format!("Dir::Etc::SourceParts={}", place("parts")),
        format!("Dir::State::Lists={}", place("lists")),
        format!("Dir::Cache={}", place("cache")),
        "APT::Sandbox::User=".into(),
    ];
    let mut words: Vec<&str> = options.iter().flat_map(|option| ["-o", option.as_str()]).collect();
    words.push("-q");
    ran("apt-get", &[&words[..], &["update"]].concat(), folder)?;
    ran("apt-get", &[&words[..], &["source", "--download-only", PACKAGE.0]].concat(), folder)?;
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut descriptions = files.filter(|path| path.extension().is_some_and(|ending| ending == "dsc"));
    let description = descriptions.next().ok_or("apt fetched no .dsc file")?;
    let description = description.to_str().unwrap();
    if !description.contains(&format!("{}_{}-", PACKAGE.0, PACKAGE.1)) {
        return Err(format!("Debian has another version than {}: {description}", PACKAGE.1));
    }
    ran("dpkg-source", &["-x", description, "unpacked"], folder)?;
    Ok(folder.join("unpacked"))
}

/// The scripts: what can be run in the folder `tests`.
fn scripts(source: &Path) -> Vec<String> {
    let entries = fs::read_dir(source.join("tests")).unwrap().flatten();
    let may_run = |entry: &fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
    let mut names: Vec<String> =
        entries.filter(may_run).map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "functions");
    names.sort();
    names
}

/// Two programs under the names that the scripts use.
struct Programs {
    /// A folder with `src/rrdtool` and `src/rrdcached`.
    built: PathBuf,
    name: &'static str,
}

impl Programs {
    fn new(folder: &Path, name: &'static str, rrdtool: &Path, rrdcached: &Path) -> Self {
        let built = folder.join(name);
        fs::create_dir_all(built.join("src")).unwrap();
        symlink(rrdtool, built.join("src/rrdtool")).unwrap();
        symlink(rrdcached, built.join("src/rrdcached")).unwrap();
        Self { built, name }
    }

    /// Runs a script in a copy of the folder `tests`, because scripts leave files and sockets there.
    fn run(&self, source: &Path, script: &str, style: &str) -> Result<(), String> {
        let place = self.built.join("run");
        fs::create_dir_all(&place).unwrap();
        let tests = source.join("tests");
        ran("cp", &["-r", tests.to_str().unwrap(), place.to_str().unwrap()], &place)?;
        let output = Command::new("timeout")
            .args([SECONDS, &format!("./{script}")])
            .current_dir(place.join("tests"))
            .env("TOP_BUILDDIR", &self.built)
            .env("TESTS_STYLE", style)
            .env("LC_ALL", "C")
            .env_remove("RRDCACHED_ADDRESS")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        fs::remove_dir_all(&place).unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }
}

#[test]
#[ignore = "a minute, and it fetches rrdtool's source: cargo xtask test --slow"]
fn rrdtools_own_tests_pass_with_khz_as_far_as_with_rrdtool() {
    let folder = Folder::new();
    let source = match source(&folder.0) {
        Ok(source) => source,
        Err(reason) => return khz_skip::skip(format!("rrdtool's source package cannot be had: {reason}")),
    };
    let theirs =
        Programs::new(&folder.0, "theirs", Path::new("/usr/bin/rrdtool"), Path::new("/usr/bin/rrdcached"));
    let khz = Path::new(env!("CARGO_BIN_EXE_khz"));
    let ours = Programs::new(&folder.0, "ours", khz, khz);
    let scripts = scripts(&source);
    assert!(scripts.len() > 20, "{scripts:?}");
    let (mut passed, mut wrong) = (0, vec![]);
    for script in &scripts {
        for style in ["", "rrdcached"] {
            if theirs.run(&source, script, style).is_err() {
                continue;
            }
            passed += 1;
            let exception = EXCEPTIONS.iter().find(|(name, _)| name == script);
            match (ours.run(&source, script, style), exception) {
                (Ok(()), None) | (Err(_), Some(_)) => {}
                (Ok(()), Some(_)) => {
                    wrong.push(format!("{script} ({style}) passes: it is no exception any more"))
                }
                (Err(said), None) => wrong.push(format!("{script} ({style}) with {}:\n{said}", ours.name)),
            }
        }
    }
    // Without Debian's programs, or without `dc` and `perl`, nothing would be compared.
    assert!(passed >= 40, "only {passed} runs pass with {}", theirs.name);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
