//! The libraries for the JVM (`java/`): finds a JDK that can build them, and runs Maven, without the network where that is
//! possible. Without such a JDK it skips them, and says so.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{needs, skipped, step};

/// The oldest JDK that has what the libraries use: the Foreign Function and Memory API and compact source files.
const JDK_MIN: u32 = 25;
/// Where Debian's packages, and those for Debian, put JDKs.
const JDKS: &str = "/usr/lib/jvm";

/// Builds everything below `java/`, and runs its tests with the program that was just built.
pub fn run(khz: &str) -> Result<(), String> {
    let Some(jdk) = jdk() else {
        let reason =
            format!("there is no JDK {JDK_MIN} or newer: JAVA_HOME names none, nor is one in {JDKS}");
        return skipped::note("java", &reason);
    };
    needs::install_for_java()?;
    let home = jdk.to_str().ok_or("the JDK's path is not UTF-8")?;
    // Maven's own libraries use what newer JDKs warn of.
    let quiet = ("MAVEN_OPTS", "--sun-misc-unsafe-memory-access=allow");
    let env = [("JAVA_HOME", home), ("KHZ_PROGRAM", khz), quiet];
    let words = ["-f", "java/pom.xml", "-B", "-q", "verify"];
    let (status, lines) = step::watched("mvn", &[&["-o"], &words[..]].concat(), &env)?;
    if status.success() {
        return Ok(());
    }
    if !lacks_artifacts(&lines) {
        return Err(format!("`mvn {}` failed ({status})", words.join(" ")));
    }
    eprintln!("xtask: Maven fetches its plugins, JUnit and Micrometer now, once");
    step::run("mvn", &words, &env)
}

/// True if Maven has not fetched everything before.
fn lacks_artifacts(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains("offline mode"))
}

/// The folder of a JDK that is new enough: JAVA_HOME, else the newest that is installed.
fn jdk() -> Option<PathBuf> {
    let told = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    told.filter(|home| version_of(home).is_some_and(|version| version >= JDK_MIN)).or_else(|| {
        let homes = fs::read_dir(JDKS).ok()?.flatten().map(|entry| entry.path());
        let versions = homes.filter_map(|home| Some((version_of(&home)?, home)));
        versions.filter(|(version, _)| *version >= JDK_MIN).max().map(|(_, home)| home)
    })
}

/// The version of the JDK in a folder; `None`: there is none, or one that cannot compile.
fn version_of(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    home.join("bin/javac").exists().then(|| version(&release))?
}

/// The first number of JAVA_VERSION in the file `release` of a JDK.
fn version(release: &str) -> Option<u32> {
    let text = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_jdk_is_in_its_file_release() {
        assert_eq!(version("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.1\"\n"), Some(25));
        assert_eq!(version("JAVA_VERSION=\"25\"\nOS_NAME=\"Linux\""), Some(25));
        assert_eq!(version("JAVA_VERSION=\"26-ea\""), Some(26));
        // Java 8: too old in any case.
        assert_eq!(version("JAVA_VERSION=\"1.8.0_392\""), Some(1));
        assert_eq!(version(""), None);
        assert_eq!(version("JAVA_VERSION=\"\""), None);
    }

    #[test]
    fn a_folder_without_a_compiler_is_no_jdk() {
        let folder = std::env::temp_dir().join(format!("khz-xtask-jdk-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("release"), "JAVA_VERSION=\"25.0.1\"\n").unwrap();
        assert_eq!(version_of(&folder), None);
        fs::write(folder.join("bin/javac"), "").unwrap();
        assert_eq!(version_of(&folder), Some(25));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn maven_goes_online_only_for_what_it_does_not_have() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let missing = "[ERROR] Cannot access central (https://repo.maven.apache.org/maven2) in offline mode and the artifact x:y:pom:1 has \
                       not been downloaded from it before.";
        assert!(lacks_artifacts(&lines(missing)));
        assert!(!lacks_artifacts(&lines("[ERROR] There are test failures.")));
    }
}
